"""JSON Schema, drafts 4 to 2020-12: what it says, and whether one accepts all that another one accepts. Pure.

model       the schema and those it refers to; `$ref` resolved within them; nothing is fetched
shapes      what each keyword must look like
facts       what can be said of the values of a schema: their types, their bounds
demands     types, listed values and bounds: whether one follows from another
disjoint    whether two schemas have no value in common
safe_patterns  which regular expressions cannot take long, for those who check values
inclusion   whether a reader's schema accepts every value of a writer's

Regular expressions are compared as texts and never run here: a schema comes from a stranger.
"""
