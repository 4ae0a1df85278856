"""Protobuf by a registry: messages of generated classes, or values by a .proto text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from ottla.schemas.schema import PROTOBUF, Reference
from ottla.schemas.wire_format import Framed, message_indexes, split_indexes
from ottla.serializers.decoding import RegistryDeserializer, SchemaSource, imports_of
from ottla.serializers.encoding import Encoder, RegistrySerializer, Written
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.message_classes import MessageClasses, message_classes
from ottla.serializers.registry_client import Registry, RegistrySchema

try:
    from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
    from google.protobuf.message import DecodeError, EncodeError, Message
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Protobuf needs the package protobuf: pip install 'ottla[schemas]'", name="protobuf"
    ) from missing

# Files that every registry knows: they are not registered.
_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerializer(RegistrySerializer):
    """A function from messages to Protobuf with the id of their schema.

    `schema` is a class that protoc generated, whose file is registered with all that it imports: each import under the
    subject that `reference_subject` makes of its file's name. Or it is a .proto text, with `references` to schemas of
    the registry; then values may be dicts, and `message` is the full name of their message (the first one of the text,
    if it is left out). Other options: see Encoder.
    """

    def __init__(
        self,
        registry: Registry,
        schema: Any,
        *,
        message: str | None = None,
        references: Sequence[Reference] = (),
        reference_subject: Callable[[str], str] = str,
        **options: Any,
    ) -> None:
        self._registry = registry
        self._reference_subject = reference_subject
        if isinstance(schema, str):
            sent = RegistrySchema(schema, PROTOBUF, tuple(Reference(*each) for each in references))
            classes = _classes(registry, sent)
            self._name = message or classes.first()
            classes.place_of(self._name)
            self._encoder = Encoder(registry, sent, self._name, **options)
        else:
            self._name = schema.DESCRIPTOR.full_name
            file = schema.DESCRIPTOR.file
            self._encoder = Encoder(registry, lambda: self._schema_of(file), self._name, **options)

    def _schema_of(self, file: Any) -> RegistrySchema:
        """The schema of a generated file; what it imports is registered first."""
        references = []
        for each in file.dependencies:
            if not each.name.startswith(_BUILT_IN):
                subject = self._reference_subject(each.name)
                known = self._encoder.ask_for(subject, self._schema_of(each))
                version = known.version or self._registry.register(subject, known, is_new=False).version
                references.append(Reference(each.name, subject, version))
        return RegistrySchema(b64encode(file.serialized_pb).decode(), PROTOBUF, tuple(references))

    def _written(self, schema: RegistrySchema, value: object) -> Written:
        return protobuf_bytes(self._registry, schema, value, self._name)


class ProtobufDeserializer(RegistryDeserializer):
    """Messages from Protobuf, each by the schema that it names; with `message`, a generated class, as its instances.

    A reader's class may have other fields than the writer's: unknown ones are skipped, missing ones have their
    defaults. With `as_dict` values are dicts, with the names of the .proto text.
    """

    _type = PROTOBUF

    def __init__(
        self, registry: Registry, message: Any = None, *, as_dict: bool = False, context: str = ""
    ) -> None:
        super().__init__(registry, context)
        self._message = message
        self._as_dict = as_dict

    def _value(self, schema: RegistrySchema, read: Framed) -> Any:
        made = protobuf_message(self._registry, schema, read, self._message)
        return MessageToDict(made, preserving_proto_field_name=True) if self._as_dict else made


def protobuf_bytes(
    registry: SchemaSource, schema: RegistrySchema, value: object, name: str | None = None
) -> Written:
    """A message, or a dict in Protobuf's JSON form, by a schema; `name` is its message, or the first one of the
    schema. Raises SchemaDataError.
    """
    classes = _classes(registry, schema)
    name = name or classes.first()
    place = message_indexes(classes.place_of(name))
    try:
        if isinstance(value, dict):
            value = ParseDict(value, classes.named(name)())
        if not isinstance(value, Message) or value.DESCRIPTOR.full_name != name:
            raise SchemaDataError(f"the value must be a message {name} or a dict, not {type(value)}")
        return Written(value.SerializeToString(), place)
    except (ParseError, EncodeError) as error:
        raise SchemaDataError(f"the value does not fit the schema: {error}") from error


def protobuf_message(
    registry: SchemaSource, schema: RegistrySchema, read: Framed, message: Any = None
) -> Any:
    """The message of data by its writer's schema, or as an instance of another class. Raises SchemaDataError."""
    if read.rest:
        indexes, payload = split_indexes(read.rest)[0], read.payload
    else:
        indexes, payload = split_indexes(read.payload)
    written = _classes(registry, schema).at(indexes)
    made = (message or written)()
    try:
        made.ParseFromString(payload)
    except (DecodeError, RecursionError) as error:
        raise SchemaDataError(
            f"the data cannot be read as {written.DESCRIPTOR.full_name} of the schema with id {schema.id}: {error}"
        ) from error
    return made


def protobuf_as_json(message: Any) -> dict[str, Any]:
    """A message in Protobuf's JSON form, with all fields that have no presence, as Confluent's proxy shows it."""
    shown: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return shown


def _classes(registry: SchemaSource, schema: RegistrySchema) -> MessageClasses:
    return message_classes(schema.text, tuple(imports_of(registry, schema)))
