"""Values that name a schema of a registry, as columns: Avro, JSON Schema and Protobuf, each by its own schema.

Rules
- The records of a batch are decoded together by schema. The columns are those of all schemas that were seen: a
  field that a newer schema adds is a new column, and one that it drops stays, with nulls.
- A value without a schema, of an unknown schema, or that its schema cannot read, is a dead letter. So are all
  records of a schema whose fields do not fit the columns of the table.
- A registry that does not answer is no reason for a dead letter: it is an error, and the commit is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa

from ottla.lake.plan.definition import column_name
from ottla.lake.tables.schemas import UnfitTypeError, in_columns, merged
from ottla.lake.values.avro_types import Column, column_of
from ottla.lake.values.decoded import Decoded
from ottla.lake.values.json_values import JsonDecoder
from ottla.schemas.schema import AVRO, JSON, Imported
from ottla.schemas.wire_format import Framed, framed
from ottla.serializers.decoding import imports_of
from ottla.serializers.errors import RegistryRequestError, SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema

_MOST_PARSED: Final = 256
_MOST_REASON: Final = 300


class _Value(NamedTuple):
    """A value at its place in the batch, with the bytes that the deserializer takes."""

    place: int
    data: bytes
    headers: tuple[tuple[str, bytes | None], ...]
    frame: Framed


class RegistryDecoder:
    """Decodes the column `value` of records by the schemas that they name."""

    def __init__(self, url: str) -> None:
        self._registry = Registry(url)
        self._json = JsonDecoder(is_open=True)

    def __call__(self, records: pa.RecordBatch, known: pa.Schema) -> Decoded:
        reasons: dict[int, str] = {}
        parts: list[tuple[list[int], pa.Table]] = []
        for schema, values in self._by_schema(records, reasons).items():
            indexes, columns = self._group(schema, values, known, reasons)
            try:
                known = merged(known, columns.schema)
            except UnfitTypeError as error:
                reasons.update((each, _cut(f"schema {schema.id}: {error}")) for each in indexes)
                continue
            parts.append((indexes, columns))
        return Decoded(_joined(parts, known, records.num_rows), reasons)

    def _by_schema(
        self, records: pa.RecordBatch, reasons: dict[int, str]
    ) -> dict[RegistrySchema, list[_Value]]:
        found: dict[RegistrySchema, list[_Value]] = {}
        headers = records.column("headers").to_pylist()
        for index, data in enumerate(records.column("value").to_pylist()):
            if data is None:
                continue
            pairs = tuple((each["key"], each["value"]) for each in headers[index] or ())
            try:
                frame = framed(data, "value", pairs)
                schema = self._schema(frame)
            except (SchemaDataError, RegistryRequestError) as error:
                if isinstance(error, RegistryRequestError) and error.status >= 500:
                    raise ConnectionError(f"the schema registry fails: {error}") from error
                reasons[index] = _cut(str(error))
                continue
            found.setdefault(schema, []).append(_Value(index, data, pairs, frame))
        return found

    def _schema(self, frame: Framed) -> RegistrySchema:
        if frame.guid is not None:
            return self._registry.schema_of_guid(frame.guid)
        assert frame.id is not None
        return self._registry.schema_of_id(frame.id)

    def _group(
        self, schema: RegistrySchema, values: list[_Value], known: pa.Schema, reasons: dict[int, str]
    ) -> tuple[list[int], pa.Table]:
        if schema.type == JSON:
            return self._json_group(values, known, reasons)
        if schema.type == AVRO:
            return self._avro_group(schema, values, reasons)
        return self._protobuf_group(values, reasons)

    def _json_group(
        self, values: list[_Value], known: pa.Schema, reasons: dict[int, str]
    ) -> tuple[list[int], pa.Table]:
        payloads = pa.array([each.frame.payload for each in values], pa.binary())
        columns, bad = self._json.decode(payloads, known)
        reasons.update((values[at].place, reason) for at, reason in bad.items())
        good = [at for at in range(len(values)) if at not in bad]
        return [values[at].place for at in good], columns.take(pa.array(good, pa.int64()))

    def _avro_group(
        self, schema: RegistrySchema, values: list[_Value], reasons: dict[int, str]
    ) -> tuple[list[int], pa.Table]:
        from ottla.serializers.avro import AvroDeserializer

        column = _avro_column(schema.text, tuple(imports_of(self._registry, schema)))
        read = AvroDeserializer(self._registry).deserialize

        def value_of(value: _Value) -> Any:
            decoded = read(value.data, "value", value.headers)
            return decoded if column.convert is None or decoded is None else column.convert(decoded)

        return _columns(values, value_of, column.type, reasons)

    def _protobuf_group(self, values: list[_Value], reasons: dict[int, str]) -> tuple[list[int], pa.Table]:
        from ottla.lake.values.protobuf_types import message_type, message_value
        from ottla.serializers.protobuf import ProtobufDeserializer

        read = ProtobufDeserializer(self._registry).deserialize
        messages: dict[int, Any] = {}
        by_name: dict[
            str, list[_Value]
        ] = {}  # one schema may have several messages; each record names its own
        for each in values:
            try:
                message = messages[each.place] = read(each.data, "value", each.headers)
            except SchemaDataError as error:
                reasons[each.place] = _cut(str(error))
                continue
            by_name.setdefault(message.DESCRIPTOR.full_name, []).append(each)

        def value_of(value: _Value) -> Any:
            return message_value(messages[value.place])

        return _several(
            _columns(some, value_of, message_type(messages[some[0].place].DESCRIPTOR), reasons)
            for some in by_name.values()
        )


def _columns(
    values: list[_Value], value_of: Callable[[_Value], Any], kind: pa.DataType, reasons: dict[int, str]
) -> tuple[list[int], pa.Table]:
    """The columns of decoded values; those that cannot be decoded get a reason."""
    indexes, decoded = [], []
    for each in values:
        try:
            one = value_of(each)
            pa.scalar(one, kind)
        except (
            SchemaDataError,
            pa.ArrowInvalid,
            pa.ArrowTypeError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            reasons[each.place] = _cut(str(error))
            continue
        indexes.append(each.place)
        decoded.append(one)
    array = pa.array(decoded, kind)
    if not pa.types.is_struct(kind):
        return indexes, pa.table({"value": array})
    fields = [pa.field(column_name(field.name), field.type) for field in kind]
    return indexes, pa.table(array.flatten(), schema=pa.schema(fields))


def _several(parts: Iterable[tuple[list[int], pa.Table]]) -> tuple[list[int], pa.Table]:
    listed = list(parts)
    if len(listed) == 1:
        return listed[0]
    schema = pa.schema([])
    for _, columns in listed:
        schema = merged(schema, columns.schema)
    indexes = [place for some, _ in listed for place in some]
    return indexes, pa.concat_tables([in_columns(columns, schema) for _, columns in listed])


def _joined(parts: list[tuple[list[int], pa.Table]], schema: pa.Schema, count: int) -> pa.Table:
    """A row for each record, in the order of the records: nulls for those without a value."""
    places: dict[int, int] = {}
    for indexes, _ in parts:
        places.update((index, len(places) + at) for at, index in enumerate(indexes))
    if not schema.names:
        return schema.empty_table()
    rows = pa.concat_tables([schema.empty_table(), *(in_columns(columns, schema) for _, columns in parts)])
    return rows.take(pa.array([places.get(index) for index in range(count)], pa.int64()))


@lru_cache(maxsize=_MOST_PARSED)
def _avro_column(text: str, imports: tuple[Imported, ...]) -> Column:
    named: dict[str, Any] = {}
    for each in imports:
        fastavro.parse_schema(json.loads(each.text), named)
    parsed: Mapping[str, Any] = fastavro.parse_schema(json.loads(text), named)
    return column_of(parsed, named)


def _cut(reason: str) -> str:
    return reason[:_MOST_REASON]
