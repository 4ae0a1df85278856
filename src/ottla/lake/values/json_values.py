"""JSON objects as columns: declared columns, or those that the objects have.

Arrow parses the values of a whole batch at once. If that fails, the batch is halved until the values that
cannot be parsed stand alone: they are dead letters, and the rest is parsed at full speed.

Rules
- Whole numbers are long, others double; texts are strings, also those that look like times; objects are
  structs, arrays are lists. A field that was only ever null has no column.
- Declared columns are closed: other fields of an object are left out. Inferred columns are open: a new field is
  a new column.
- A value of another type than its column's does not fit, and is a dead letter.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ottla.lake.plan.definition import column_name
from ottla.lake.tables.schemas import UnfitTypeError, in_columns, merged
from ottla.lake.values.decoded import Decoded

_MOST_REASON: Final = 300


class JsonDecoder:
    """Decodes the column `value` of records. `is_open`: fields that are not known become columns."""

    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open

    def __call__(self, records: pa.RecordBatch, known: pa.Schema) -> Decoded:
        return self.decode(records.column("value"), known)

    def decode(self, values: pa.Array, known: pa.Schema) -> Decoded:
        """The columns of JSON texts."""
        reasons: dict[int, str] = {}
        present = pc.indices_nonzero(values.is_valid())
        parsed = self._parsed(values, [each.as_py() for each in present], known, reasons)
        return Decoded(_spread(parsed, values, reasons), reasons)

    def _parsed(
        self, values: pa.Array, indexes: list[int], known: pa.Schema, reasons: dict[int, str]
    ) -> pa.Table:
        """Columns of the values that can be parsed; the others get a reason."""
        if not indexes:
            return known.empty_table()
        try:
            return self._columns(values.take(pa.array(indexes)), known)
        except (pa.ArrowInvalid, KeyError, UnfitTypeError, _NotOneObjectError) as error:
            if len(indexes) == 1:
                reasons[indexes[0]] = f"not the JSON of this table: {error}"[:_MOST_REASON]
                return known.empty_table()
        middle = len(indexes) // 2
        left = self._parsed(values, indexes[:middle], known, reasons)
        # What the first half added is known to the second: both have the same columns then.
        right = self._parsed(values, indexes[middle:], merged(known, left.schema), reasons)
        return pa.concat_tables([in_columns(left, right.schema), right])

    def _columns(self, values: pa.Array, known: pa.Schema) -> pa.Table:
        data = _lines(values)
        table = _read(data, _fields_of(known), is_open=self._is_open)
        if table.num_rows != len(values):
            raise _NotOneObjectError("a value is not one JSON object")
        inferred = _named(_without_times(table.schema))
        if len(set(inferred.names)) < len(inferred.names):
            raise _NotOneObjectError("two fields of a value would be one column")
        wanted = merged(known, inferred)
        if self._is_open and wanted != known:
            # Types of new columns are ours, not those that Arrow guessed for this batch.
            table = _read(data, _fields_of(wanted), is_open=False)
        return in_columns(table.rename_columns([column_name(each) for each in table.column_names]), wanted)


class _NotOneObjectError(ValueError):
    """A value is no JSON object, or more than one."""


def _lines(values: pa.Array) -> bytes:
    """One value on each line. Line breaks in JSON are white space, because texts have none."""
    texts = values.cast(pa.string())  # ArrowInvalid for bytes that are not UTF-8
    bare = pc.utf8_trim_whitespace(texts)
    is_object = pc.and_(pc.starts_with(bare, "{"), pc.ends_with(bare, "}"))
    if not pc.all(is_object).as_py():
        raise _NotOneObjectError("a value is not one JSON object")
    joined = pc.binary_join(
        pa.scalar(
            [each.replace("\n", " ").replace("\r", " ") for each in bare.to_pylist()], pa.list_(pa.string())
        ),
        "\n",
    )
    data: bytes = joined.as_buffer().to_pybytes()
    return data


def _read(data: bytes, schema: pa.Schema, *, is_open: bool) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if is_open else "ignore"
        ),
    )


def _fields_of(columns: pa.Schema) -> pa.Schema:
    """The fields of the JSON objects, by the columns that they become."""
    return pa.schema([pa.field(_field_name(each.name), each.type) for each in columns])


def _field_name(column: str) -> str:
    bare = column.removeprefix("value_")
    return bare if column_name(bare) == column else column


def _named(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(column_name(each.name), each.type) for each in schema])


def _without_times(schema: pa.Schema) -> pa.Schema:
    """The inferred schema: texts that look like times stay texts, and fields without a type are left out."""
    found = [(each.name, _plain_type(each.type)) for each in schema]
    return pa.schema([pa.field(name, kind) for name, kind in found if kind is not None])


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return pa.string()
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        inner = [(each.name, _plain_type(each.type)) for each in kind]
        fields = [pa.field(name, each) for name, each in inner if each is not None]
        return pa.struct(fields) if fields else None
    if pa.types.is_list(kind):
        element = _plain_type(kind.value_type)
        return None if element is None else pa.list_(element)
    return kind


def _spread(parsed: pa.Table, values: pa.Array, reasons: dict[int, str]) -> pa.Table:
    """A row for each value: nulls for values that are null or bad."""
    if parsed.num_rows == len(values) or not parsed.num_columns:
        return parsed
    place, indexes = 0, []
    for index, is_there in enumerate(values.is_valid().to_pylist()):
        is_parsed = is_there and index not in reasons
        indexes.append(place if is_parsed else None)
        place += is_parsed
    return parsed.take(pa.array(indexes, pa.int64()))
