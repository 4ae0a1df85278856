"""Messages to bytes and back: the public face of declarations and their compiled codecs.

`codec(cls, version)` compiles, on first use and once for all, two functions for one version of a message:
`read(view, position) -> (message, position)` and `write(message, out)`. `view` must end where the message may
end at the latest (the frame): every length is checked against it. `encode` and `decode` are the short way for
one message. Only DecodeError leaves a reader, whatever the bytes; only ValueError leaves a writer, and it
names the field. Fields that a version does not have are read as their default and not written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.protocol.declaration import (
    ZERO_UUID,
    Boolean,
    Bytes,
    Declaration,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    between,
    declaration_of,
    first_flexible_version,
    message,
    nullable_since,
    record,
    since,
    struct,
    tag,
    until,
)
from ottla.protocol.layout import first_nullable_version, first_version
from ottla.protocol.primitives import DecodeError
from ottla.protocol.reading import compile_read
from ottla.protocol.writing import compile_write

__all__ = [
    "ZERO_UUID",
    "Boolean",
    "Bytes",
    "Codec",
    "Declaration",
    "DecodeError",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Records",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "between",
    "codec",
    "declaration_of",
    "decode",
    "encode",
    "first_flexible_version",
    "first_nullable_version",
    "first_version",
    "message",
    "nullable_since",
    "record",
    "since",
    "struct",
    "tag",
    "until",
]

T = TypeVar("T")


class Codec(NamedTuple, Generic[T]):
    """The two compiled functions of one version of a message."""

    read: Callable[[memoryview, int], tuple[T, int]]
    write: Callable[[T, bytearray], None]


_compiled: dict[tuple[type[Any], int], Codec[Any]] = {}


def codec(cls: type[T], version: int) -> Codec[T]:
    """The codec of one version of a message or record; ValueError if it has no such version."""
    compiled = _compiled.get((cls, version))
    if compiled is None:
        declaration = declaration_of(cls)
        first, last = declaration.versions
        if not first <= version <= last:
            raise ValueError(f"{cls.__name__} has the versions {first} to {last}, not {version}")
        flexible = declaration.is_flexible(version)
        compiled = Codec(compile_read(cls, version, flexible), compile_write(cls, version, flexible))
        _compiled[cls, version] = compiled
    return compiled


def encode(value: object, version: int) -> bytearray:
    """The bytes of a message or record in one version."""
    out = bytearray()
    codec(type(value), version).write(value, out)
    return out


def decode(cls: type[T], view: bytes | bytearray | memoryview, version: int) -> T:
    """The message or record that `view` holds, all of it; its bytes fields are views of `view`."""
    first, last = declaration_of(cls).versions
    if not first <= version <= last:
        raise DecodeError(f"{cls.__name__} has the versions {first} to {last}, not {version}")
    value, end = codec(cls, version).read(memoryview(view), 0)
    if end != len(view):
        raise DecodeError(f"{cls.__name__} v{version}: {len(view) - end} bytes are left over")
    return value
