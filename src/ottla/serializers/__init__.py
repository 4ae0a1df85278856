"""Keys and values by the schemas of a registry, in the forms that Confluent's serializers write and read.

registry_client   a registry over HTTP: register, look up, fetch, with what never changes remembered
subject_names     the subject under which the schema of a topic is registered
errors            what is wrong with a value, with data, or with the registry's answer
encoding          what the serializers of all formats share: registration, and the form of the bytes
decoding          what the deserializers of all formats share: the writer's schema of each record
avro              Avro, by fastavro
json_schema       JSON, checked by jsonschema
protobuf          Protobuf: generated classes, or values by a .proto text
message_classes   classes of messages by the schemas of a registry

    registry = Registry("http://localhost:8082")
    producer = ottla.Producer(value_serializer=AvroSerializer(registry, SCHEMA, topic="orders"))
    read = AvroDeserializer(registry)
    async for record in consumer:
        order = read.value_of(record)

Needs the extra `ottla[schemas]`. Requests to the registry block the calling thread; they happen when a serializer or
a schema id is used for the first time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.serializers.avro import AvroDeserializer as AvroDeserializer
    from ottla.serializers.avro import AvroSerializer as AvroSerializer
    from ottla.serializers.errors import RegistryRequestError as RegistryRequestError
    from ottla.serializers.errors import SchemaDataError as SchemaDataError
    from ottla.serializers.json_schema import JsonSchemaDeserializer as JsonSchemaDeserializer
    from ottla.serializers.json_schema import JsonSchemaSerializer as JsonSchemaSerializer
    from ottla.serializers.protobuf import ProtobufDeserializer as ProtobufDeserializer
    from ottla.serializers.protobuf import ProtobufSerializer as ProtobufSerializer
    from ottla.serializers.registry_client import Registry as Registry
    from ottla.serializers.subject_names import record_name as record_name
    from ottla.serializers.subject_names import topic_name as topic_name
    from ottla.serializers.subject_names import topic_record_name as topic_record_name

# Where each name lives: a format whose package is not installed is no obstacle for the others.
_HOMES = {
    "AvroDeserializer": "avro",
    "AvroSerializer": "avro",
    "JsonSchemaDeserializer": "json_schema",
    "JsonSchemaSerializer": "json_schema",
    "ProtobufDeserializer": "protobuf",
    "ProtobufSerializer": "protobuf",
    "Registry": "registry_client",
    "RegistryRequestError": "errors",
    "SchemaDataError": "errors",
    "record_name": "subject_names",
    "topic_name": "subject_names",
    "topic_record_name": "subject_names",
}

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "Registry",
    "RegistryRequestError",
    "SchemaDataError",
    "record_name",
    "topic_name",
    "topic_record_name",
]

# Hidden from type checkers, which would take any name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{home}"), name)
