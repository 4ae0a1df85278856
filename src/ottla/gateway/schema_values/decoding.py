"""Bytes to JSON, by the schema that each key or value names, in its prefix or in a header.

Schemas come from the registry's memory. An id that is not there may have been registered a moment ago by another
gateway: the memory catches up, at most once a second, so that a topic full of foreign data costs little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ottla.client.consumer.consumer import ConsumerRecord
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.records.machine.described import shown_part
from ottla.gateway.registry.machine.problems import RegistryError
from ottla.gateway.registry.readers import Readers
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.gateway.schema_values.codecs import decoded
from ottla.gateway.schema_values.known_schemas import KnownSchemas
from ottla.runtime.clock import monotonic_ms
from ottla.schemas.wire_format import Framed, framed, header_name
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import RegistrySchema

_CATCH_UP_MS: Final = 1_000


class DecodedPart(NamedTuple):
    """A key or value as JSON, with the id of its schema; or why it could not be decoded."""

    value: Any = None
    schema_id: int | None = None
    schema_type: str = ""
    problem: str | None = None


class ValueDecoder:
    """Reads keys and values by the schemas of the registry. `prepare` comes first, with all records of an answer."""

    def __init__(self, registry: SchemaRegistry, readers: Readers) -> None:
        self._registry = registry
        self._readers = readers
        self._source: KnownSchemas | None = None
        self._caught_up_ms = -_CATCH_UP_MS

    async def check(self, login: Login | None) -> None:
        """Raises HttpError(401) and KafkaError for a caller that may not read schemas."""
        await self._readers.check(login)

    async def prepare(self, records: Iterable[ConsumerRecord]) -> None:
        """Know the schemas of these records, as far as they exist. Raises KafkaError and OSError."""
        self._source = await self._registry.ask_memory(KnownSchemas)
        if monotonic_ms() - self._caught_up_ms < _CATCH_UP_MS or not any(map(self._is_new, records)):
            return
        self._caught_up_ms = monotonic_ms()
        self._source = await self._registry.ask(KnownSchemas)

    def shown(self, name: str, data: bytes, record: ConsumerRecord) -> dict[str, Any] | None:
        """A key or value for a caller that takes what it gets: by its schema, or as bytes with the reason."""
        if not _is_framed(name, data, record):
            return None
        found = self.part(name, data, record)
        if found.problem is None:
            return {name: found.value, f"{name}_schema_id": found.schema_id}
        value, encoding = shown_part(data)
        noted = {} if encoding is None else {f"{name}_encoding": encoding}
        return {name: value, **noted, f"{name}_problem": found.problem}

    def part(self, name: str, data: bytes | None, record: ConsumerRecord) -> DecodedPart:
        """A key or value of a record that `prepare` has seen."""
        if data is None:
            return DecodedPart()
        try:
            read = framed(data, name, record.headers)
            schema = self._schema(read)
            assert self._source is not None
            return DecodedPart(decoded(self._source, schema, read), schema.id, schema.type)
        except (SchemaDataError, RegistryError) as error:
            return DecodedPart(problem=str(error))

    def _is_new(self, record: ConsumerRecord) -> bool:
        for name, data in (("key", record.key), ("value", record.value)):
            try:
                if data is not None:
                    self._schema(framed(data, name, record.headers))
            except RegistryError:
                return True
            except SchemaDataError:
                continue
        return False

    def _schema(self, read: Framed) -> RegistrySchema:
        assert self._source is not None
        if read.guid is not None:
            return self._source.of_guid(read.guid)
        assert read.id is not None
        return self._source.of_id(read.id)


def _is_framed(name: str, data: bytes, record: ConsumerRecord) -> bool:
    """Whether data says that it has a schema: it begins with a zero byte, or a header names one."""
    return data[:1] == b"\0" or any(each == header_name(name) for each, _ in record.headers)
