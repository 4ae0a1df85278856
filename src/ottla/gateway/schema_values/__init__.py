"""Keys and values by the schemas of this gateway's own registry, for callers that send and read JSON.

machine          the schemas that a request's body names; which regular expressions are safe to run
known_schemas    the registry's memory, as serializers ask for schemas
codecs           one value by one schema, each way
encoding         JSON to bytes, by the schemas that a request names
decoding         bytes to JSON, by the schema that each record names

The forms are those of Confluent's proxy: Avro's JSON encoding, JSON as it is, Protobuf's JSON form. Needs the extra
`ottla[schemas]`; a gateway without it says so when a request asks for a format.
"""
