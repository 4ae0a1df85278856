"""How data says which schema it was written with.

In the prefix: a zero byte and the id, in four bytes, before the data. In a header: `__value_schema_id` (or
`__key_schema_id`) with a one byte and the sixteen bytes of the GUID; the data has no prefix then. Protobuf names the
message, too: by its place in the file, behind the id or behind the GUID.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.schemas.protobuf.wire_values import varint
from ottla.schemas.schema import SchemaDataError, guid_text

_PREFIX: Final = struct.Struct(">bi")
_ID, _GUID = 0, 1
_MOST_INDEXES: Final = 100
Headers: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class Framed(NamedTuple):
    """Data without its prefix, and the schema that it names: an id, or a GUID. `rest` is what follows in the header."""

    payload: bytes
    id: int | None = None
    guid: str | None = None
    rest: bytes = b""


def header_name(part: str) -> str:
    """The header that has the GUID of the key's or the value's schema."""
    return f"__{part}_schema_id"


def with_prefix(schema_id: int, payload: bytes) -> bytes:
    """The data with the id before it."""
    return _PREFIX.pack(_ID, schema_id) + payload


def guid_header(part: str, guid: str, rest: bytes = b"") -> tuple[str, bytes]:
    """The header that names a GUID."""
    return header_name(part), bytes([_GUID]) + bytes.fromhex(guid.replace("-", "")) + rest


def message_indexes(indexes: Sequence[int]) -> bytes:
    """The place of a Protobuf message in its file; the first message is one zero byte."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(varint(each << 1) for each in (len(indexes), *indexes))


def split_indexes(data: bytes) -> tuple[list[int], bytes]:
    """The place of a Protobuf message, and the bytes behind it. Raises SchemaDataError."""
    count, place = _zigzag(data, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise SchemaDataError(
            f"the data names its message by {count} numbers: it is not Protobuf of a registry"
        )
    indexes = []
    for _ in range(count):
        index, place = _zigzag(data, place)
        indexes.append(index)
    return indexes or [0], data[place:]


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), place
    raise SchemaDataError("the place of the message in the data is cut off")


def framed(data: bytes, part: str = "value", headers: Headers = ()) -> Framed:
    """The schema that data names, in a header or in its prefix. Raises SchemaDataError."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    for name, value in pairs:
        if name == header_name(part) and value is not None:
            return _by_header(data, name, value)
    if len(data) < _PREFIX.size:
        raise SchemaDataError(f"{len(data)} bytes are too few for the id of a schema and data")
    magic, schema_id = _PREFIX.unpack_from(data)
    if magic != _ID:
        raise SchemaDataError(f"the data begins with byte {data[0]}, and not with 0 and the id of a schema")
    return Framed(data[_PREFIX.size :], id=schema_id)


def _by_header(data: bytes, name: str, value: bytes) -> Framed:
    if len(value) >= 17 and value[0] == _GUID:
        return Framed(data, guid=guid_text(value[1:17]), rest=value[17:])
    if len(value) >= _PREFIX.size and value[0] == _ID:
        return Framed(data, id=_PREFIX.unpack_from(value)[1], rest=value[_PREFIX.size :])
    raise SchemaDataError(f"the header {name} is neither a one byte and a GUID nor a zero byte and an id")
