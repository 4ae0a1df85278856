"""What the serializers of all formats share: the schema is registered or looked up once, then named in the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from ottla.schemas.wire_format import guid_header, with_prefix
from ottla.serializers.registry_client import Registry, RegistrySchema
from ottla.serializers.subject_names import SubjectName, topic_name

Part = Literal["key", "value"]
Registration = Literal["register", "lookup", "latest"]
_REGISTRATIONS: Final = ("register", "lookup", "latest")


class Written(NamedTuple):
    """A value as bytes. `place` names the message within its schema; only Protobuf needs it."""

    data: bytes
    place: bytes = b""


class Encoder:
    """Registers schemas and puts their names to data.

    `registration` is what happens to the schema first: "register" it if it is new, "lookup" that it is there, or take
    the "latest" version of the subject.
    """

    def __init__(
        self,
        registry: Registry,
        schema: RegistrySchema | Callable[[], RegistrySchema],
        record: str | None,
        *,
        topic: str | None = None,
        part: Part = "value",
        subject_name: SubjectName = topic_name,
        registration: Registration = "register",
        normalize: bool = False,
    ) -> None:
        if registration not in _REGISTRATIONS:
            raise ValueError(f"registration can be {', '.join(_REGISTRATIONS)}, not {registration!r}")
        if part not in ("key", "value"):
            raise ValueError(f"part can be key or value, not {part!r}")
        self._registry = registry
        self._schema = schema
        self._record = record
        self._topic = topic
        self.part = part
        self._subject_name = subject_name
        self._registration = registration
        self._normalize = normalize
        self._registered: dict[str | None, RegistrySchema] = {}

    def registered(self, topic: str | None = None) -> RegistrySchema:
        """The schema as the registry has it. Raises RegistryRequestError and ConnectionError."""
        asked = topic or self._topic
        known = self._registered.get(asked)
        if known is None:
            known = self._registered[asked] = self._ask(self._subject_name(asked, self.part, self._record))
        return known

    def _ask(self, subject: str) -> RegistrySchema:
        if self._registration == "latest":
            return self._registry.version(subject)
        schema = self._schema if isinstance(self._schema, RegistrySchema) else self._schema()
        return self.ask_for(subject, schema)

    def ask_for(self, subject: str, schema: RegistrySchema) -> RegistrySchema:
        """A schema as the registry has it under a subject: registered, or looked up."""
        is_new = self._registration != "lookup"
        return self._registry.register(subject, schema, normalize=self._normalize, is_new=is_new)


class RegistrySerializer(ABC):
    """What the serializers of all formats are: functions from values to bytes, for `value_serializer` and
    `key_serializer` of a producer.
    """

    _encoder: Encoder

    def __call__(self, value: object) -> bytes:
        """The value, with the id of its schema before it. Raises SchemaDataError."""
        return self._prefixed(value, None)

    def serialize(self, value: object, topic: str) -> bytes:
        """The same for another topic than the serializer's own."""
        return self._prefixed(value, topic)

    def with_header(self, value: object, topic: str | None = None) -> tuple[bytes, list[tuple[str, Any]]]:
        """The value without a prefix, and the headers that name its schema: for `producer.send(..., headers=)`."""
        schema = self._encoder.registered(topic)
        written = self._written(schema, value)
        return written.data, [guid_header(self._encoder.part, schema.guid, written.place)]

    def prepare(self) -> None:
        """Register or look up the schema now, and not at the first value."""
        self._encoder.registered()

    def _prefixed(self, value: object, topic: str | None) -> bytes:
        schema = self._encoder.registered(topic)
        written = self._written(schema, value)
        return with_prefix(schema.id, written.place + written.data)

    @abstractmethod
    def _written(self, schema: RegistrySchema, value: object) -> Written:
        """The value by a schema of the registry. Raises SchemaDataError."""
