"""What the serializers of all formats share: the schema is registered or looked up once, then named in the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from ottla.serializers.registry_client import Registry, RegistrySchema
from ottla.serializers.subject_names import SubjectName, topic_name
from ottla.serializers.wire_format import guid_header, with_prefix

Part = Literal["key", "value"]
Registration = Literal["register", "lookup", "latest"]
_REGISTRATIONS: Final = ("register", "lookup", "latest")


class Encoder:
    """Turns values into bytes that name their schema.

    `registration` is what happens to the schema first: "register" it if it is new, "lookup" that it is there, or take
    the "latest" version of the subject.
    """

    def __init__(
        self,
        registry: Registry,
        schema: RegistrySchema,
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
        is_new = self._registration == "register"
        return self._registry.register(subject, self._schema, normalize=self._normalize, is_new=is_new)

    def prefixed(self, topic: str | None, payload: Callable[[RegistrySchema], bytes]) -> bytes:
        """The data, with the id before it."""
        schema = self.registered(topic)
        return with_prefix(schema.id, payload(schema))

    def headed(
        self, topic: str | None, payload: Callable[[RegistrySchema], bytes]
    ) -> tuple[bytes, list[tuple[str, Any]]]:
        """The data, and the header that names its GUID."""
        schema = self.registered(topic)
        return payload(schema), [guid_header(self.part, schema.guid)]
