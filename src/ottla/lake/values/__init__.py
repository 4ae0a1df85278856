"""From records to rows: the columns of the record, and those of its value.

rows              record batches of the log become rows of a table; bad records become dead letters
decoders, decoded the decoder of a table, and what it answers
upserts           the newest row of each key
json_values       JSON objects as columns, declared or inferred
registry_values   values that name a schema of a registry, as columns
avro_types        the columns of an Avro schema
protobuf_types    the columns of a Protobuf message
"""
