"""The schemas that the records of a batch name, where a topic demands it (`schema.validation`).

A batch is decoded for it, as those of compacted topics are. A null key or value names no schema and needs none. A
batch that the log refuses anyway (too large, of another format) is left to the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.batch_validation import RefusedRecordsError
from ottla.records.batch import BatchView, CorruptRecord
from ottla.records.record import Record
from ottla.schemas.registry.registered import RegisteredSchemas, SchemaName
from ottla.schemas.schema import SchemaDataError
from ottla.schemas.wire_format import framed

_PREFIX_BYTES: Final = 5

Place = int


class Named(NamedTuple):
    """A schema as records name it, and the subject that it has to be registered under; None for any."""

    name: SchemaName
    subject: str | None


NamedSchemas = Mapping[Named, list[Place]]  # the places of records in their batch


def named_schemas(records: memoryview, topic: str, config: TopicConfig) -> NamedSchemas:
    """The schemas that a batch names. Raises KafkaError, with the records that name none (KIP-467)."""
    found: dict[Named, list[Place]] = {}
    wrong: list[tuple[Place, str]] = []
    try:
        batch = BatchView(records)
        if batch.size_bytes > config.max_message_bytes or batch.is_control:
            return {}
        if not batch.crc_is_valid():
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        for part in config.checked_parts:
            subject = f"{topic}-{part}" if config.schema_validation_subjects == "topic" else None
            for place, record in enumerate(batch.records()):
                try:
                    name = _name(record, part)
                except SchemaDataError as problem:
                    wrong.append((place, f"the {part} names no schema: {problem}"))
                    continue
                if name is not None:
                    found.setdefault(Named(name, subject), []).append(place)
    except CorruptRecord as problem:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(problem)) from None
    if wrong:
        wrong.sort()
        raise RefusedRecordsError(ErrorCode.INVALID_RECORD, wrong[0][1], wrong)
    return found


def _name(record: Record, part: str) -> SchemaName | None:
    data = record.key if part == "key" else record.value
    if data is None:
        return None
    if not record.headers and len(data) >= _PREFIX_BYTES and data[0] == 0:
        return int.from_bytes(data[1:_PREFIX_BYTES], signed=True)
    framing = framed(data, part, record.headers)
    return framing.id if framing.id is not None else framing.guid


def refusal(named: NamedSchemas, schemas: RegisteredSchemas) -> RefusedRecordsError | None:
    """Why a batch is refused: the records whose schemas are not registered. None if all are."""
    missing = [each for each in named if not schemas.has(*each)]
    if not missing:
        return None
    refused = sorted((place, _reason(each)) for each in missing for place in named[each])
    return RefusedRecordsError(ErrorCode.INVALID_RECORD, refused[0][1], refused)


def _reason(missing: Named) -> str:
    where = "" if missing.subject is None else f" under {missing.subject}"
    return f"the schema {missing.name} is not registered{where}"


def are_registered(named: Iterable[Named], schemas: RegisteredSchemas) -> bool:
    """Whether all schemas of some batches are registered."""
    return all(schemas.has(*each) for each in named)
