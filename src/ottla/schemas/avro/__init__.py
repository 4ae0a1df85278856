"""Avro 1.12: what a schema says, how it is written, and who can read whose data. Pure.

types        the parts of a schema
names        names with namespaces, as Avro spells them
parser       JSON to parts, with a sentence for everything that is wrong
defaults     whether a default fits its field
canonical    parts to the text that Java's Avro writes, by which registries know a schema again
resolution   the rules by which a reader's schema reads a writer's data
"""
