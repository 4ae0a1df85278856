"""JSON to bytes, by the schemas that a produce request names: registered for the topic, or known by their id."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.records.machine.produced import RecordToSend, records_in
from ottla.gateway.registry.machine.problems import RegistryError
from ottla.gateway.registry.machine.registration import Submission
from ottla.gateway.registry.readers import Readers
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.gateway.schema_values.codecs import encoded
from ottla.gateway.schema_values.known_schemas import KnownSchemas, registry_schema
from ottla.gateway.schema_values.machine.formats import (
    BAD_DATA,
    TYPES,
    NamedSchema,
    SchemaFormat,
    named_schema,
)
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import RegistrySchema
from ottla.serializers.subject_names import topic_name

Part = Literal["key", "value"]


class EncodedRecords(NamedTuple):
    """Records in bytes, and the ids of their schemas."""

    records: list[RecordToSend]
    key_schema_id: int | None
    value_schema_id: int | None


class ValueEncoder:
    """Writes the keys and values of requests by schemas of the registry."""

    def __init__(self, registry: SchemaRegistry, readers: Readers) -> None:
        self._registry = registry
        self._readers = readers

    async def records(
        self,
        login: Login | None,
        topic: str,
        body: dict[str, Any],
        form: SchemaFormat,
        partition: int | None,
    ) -> EncodedRecords:
        """The records of a body. Raises HttpError, KafkaError and OSError."""
        named = {part: named_schema(body, part) for part in ("key", "value")}
        await self._readers.check(login)
        try:
            schemas = {
                part: None if each is None else await self._schema(login, topic, part, each, form)
                for part, each in named.items()
            }
            source = await self._registry.ask_memory(KnownSchemas)
        except RegistryError as error:
            raise HttpError(error.status, error.message, error_code=error.code) from error

        def encode(part: str, value: Any) -> bytes | None:
            schema = schemas[part]
            if value is None or schema is None:
                return None
            try:
                return encoded(source, schema, value)
            except SchemaDataError as error:
                raise HttpError(422, f"the {part} cannot be used: {error}", error_code=BAD_DATA) from error

        ids = [None if each is None else each.id for each in (schemas["key"], schemas["value"])]
        return EncodedRecords(records_in(body, encode, partition), *ids)

    async def _schema(
        self, login: Login | None, topic: str, part: str, named: NamedSchema, form: SchemaFormat
    ) -> RegistrySchema:
        if named.text is not None:
            security = self._readers.security_of(login)
            submission = Submission(named.text, TYPES[form])
            subject = topic_name(topic, part, None)
            return registry_schema(
                await self._registry.register(security, subject, submission, normalize=None)
            )
        wanted = named.id
        assert wanted is not None
        schema = await self._registry.ask_memory(lambda catalog: KnownSchemas(catalog).of_id(wanted))
        if schema.type != TYPES[form]:
            raise HttpError(
                422,
                f"the schema {named.id} is of type {schema.type}, and the request says {form}",
                error_code=BAD_DATA,
            )
        return schema
