"""How data says which schema it was written with.

In the prefix: a zero byte and the id, in four bytes, before the data. In a header: `__value_schema_id` (or
`__key_schema_id`) with a one byte and the sixteen bytes of the GUID; the data has no prefix then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla.serializers.errors import SchemaDataError

_PREFIX: Final = struct.Struct(">bi")
_ID, _GUID = 0, 1
Headers: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class Framed(NamedTuple):
    """Data without its prefix, and the schema that it names: an id, or a GUID."""

    payload: bytes
    id: int | None = None
    guid: str | None = None


def header_name(part: str) -> str:
    """The header that has the GUID of the key's or the value's schema."""
    return f"__{part}_schema_id"


def with_prefix(schema_id: int, payload: bytes) -> bytes:
    """The data with the id before it."""
    return _PREFIX.pack(_ID, schema_id) + payload


def guid_header(part: str, guid: str) -> tuple[str, bytes]:
    """The header that names a GUID."""
    return header_name(part), bytes([_GUID]) + bytes.fromhex(guid.replace("-", ""))


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
    if len(value) == 17 and value[0] == _GUID:
        text = value[1:].hex()
        return Framed(data, guid="-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))
    if len(value) == _PREFIX.size and value[0] == _ID:
        return Framed(data, id=_PREFIX.unpack(value)[1])
    raise SchemaDataError(f"the header {name} is neither a one byte and a GUID nor a zero byte and an id")
