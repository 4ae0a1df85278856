"""Schemas as values: what they say, whether two of them fit together. Pure.

schema       a schema's text, its references, its GUID; what is wrong with one, or between two
levels       the seven compatibility levels: which versions are compared, in which direction
formats      the table of formats: how a text of each type is read and compared
avro         Avro: parser, canonical text, resolution rules
json_schema  JSON Schema: references, and whether one accepts all that another one does
protobuf     Protobuf: parser, descriptors, canonical text, rules of reading
registry     the records of `_schemas`, and the schemas that they say are registered
wire_format  how data says which schema it was written with
json_text    JSON read strictly and written compactly
"""
