"""Protobuf's binary form of values whose types are in a table: read and written by the definitions, without classes.

It serves descriptors, and the options in them. A value is what an option of a .proto text has: texts, words, maps by
the names of fields, lists. Unknown fields are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from ottla.schemas.protobuf.type_table import TypeTable
from ottla.schemas.protobuf.types import Enumeration, Field, Literal, Message, Value
from ottla.schemas.schema import InvalidSchemaError, shown

_FIXED: Final = {
    "double": "<d", "float": "<f", "fixed64": "<Q", "fixed32": "<I", "sfixed64": "<q", "sfixed32": "<i",
}  # fmt: skip
_ZIGZAG: Final = ("sint32", "sint64")
_MOST_LEVELS: Final = 100
_WORD: Final = 2**64


class _Member:
    """A field as it is in data: its name in a value, its type and where that is named."""

    __slots__ = ("is_repeated", "kind", "name", "number", "target")

    def __init__(self, name: str, field: Field, scope: str, table: TypeTable) -> None:
        found = table.definition(field.type, scope)
        self.name, self.number, self.kind = name, field.number, field.type
        self.target = found.part if found is not None else None
        if found is not None:
            self.kind = found.full_name
        self.is_repeated = field.label == "repeated"


class WireCodec:
    """Reads and writes messages of the types of a table."""

    def __init__(self, table: TypeTable) -> None:
        self._table = table
        self._members: dict[str, dict[int, _Member]] = {}

    # ---- reading

    def decode(self, message: str, data: bytes, level: int = 0) -> dict[str, Value]:
        """The value of a message. Raises InvalidSchemaError."""
        if level > _MOST_LEVELS:
            raise InvalidSchemaError(f"the data is nested in more than {_MOST_LEVELS} levels")
        made: dict[str, Value] = {}
        members = self._members_of(message)
        for number, wire, payload in _fields(data):
            member = members.get(number)
            if member is None:
                continue
            values = list(self._values(member, wire, payload, level))
            if member.is_repeated:
                held = made.setdefault(member.name, [])
                assert isinstance(held, list)
                held += values
            elif values:
                made[member.name] = values[-1]
        return made

    def _values(self, member: _Member, wire: int, payload: bytes | int, level: int) -> Iterator[Value]:
        if isinstance(member.target, Message):
            if wire != 2 or isinstance(payload, int):
                raise InvalidSchemaError(f"the field {member.name} is no message")
            yield self.decode(member.kind, payload, level + 1)
        elif member.kind in ("string", "bytes"):
            if isinstance(payload, int):
                raise InvalidSchemaError(f"the field {member.name} is no text")
            yield payload.decode("utf-8" if member.kind == "string" else "latin-1", "replace")
        elif wire == 2 and not isinstance(payload, int):
            place = 0
            while place < len(payload):  # packed numbers
                fixed = _FIXED.get(member.kind)
                if fixed is None:
                    value, place = _varint(payload, place)
                    yield _word(member, value)
                else:
                    yield _unpacked(fixed, payload[place : place + struct.calcsize(fixed)])
                    place += struct.calcsize(fixed)
        elif isinstance(payload, int):
            yield _word(member, payload)
        else:
            yield _unpacked(_FIXED.get(member.kind, ""), payload)

    # ---- writing

    def encode(self, message: str, value: dict[str, Value]) -> bytes:
        """The data of a message; what has no field is left out. Raises InvalidSchemaError."""
        by_name = {each.name: each for each in self._members_of(message).values()}
        out = []
        for name, given in value.items():
            member = by_name.get(name)
            if member is None:
                continue
            values = given if member.is_repeated and isinstance(given, list) else [given]
            out += [(member.number, self._field(member, each)) for each in values]
        return b"".join(data for _, data in sorted(out, key=lambda each: each[0]))

    def _field(self, member: _Member, value: Value) -> bytes:
        if isinstance(member.target, Message):
            inner = self.encode(member.kind, value if isinstance(value, dict) else {})
            return _tag(member.number, 2) + varint(len(inner)) + inner
        if member.kind in ("string", "bytes"):
            text = value if isinstance(value, str) else _text_of(value)
            data = text.encode("utf-8", "replace") if member.kind == "string" else _latin(text)
            return _tag(member.number, 2) + varint(len(data)) + data
        word = _text_of(value)
        try:
            if member.kind in _FIXED:
                fixed = _FIXED[member.kind]
                number = float(word) if fixed in ("<d", "<f") else int(word, 0)
                return _tag(member.number, 1 if struct.calcsize(fixed) == 8 else 5) + struct.pack(
                    fixed, number
                )
            return _tag(member.number, 0) + varint(_whole(member, word) % _WORD)
        except (ValueError, OverflowError, struct.error) as error:
            raise InvalidSchemaError(
                f"{shown(word)} cannot be the value of the option {member.name}"
            ) from error

    def _members_of(self, message: str) -> dict[int, _Member]:
        found = self._members.get(message)
        if found is None:
            found = self._members[message] = {}
            part = self._table.types[message].part
            assert isinstance(part, Message)
            for each in part.all_fields():
                found[each.number] = _Member(each.name, each, message, self._table)
            for full, added, scope in self._table.extensions_of(message):
                found[added.number] = _Member(f"[{full}]", added, scope, self._table)
        return found


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, wire, value
            continue
        if wire not in (1, 2, 5) or number == 0:
            raise InvalidSchemaError(
                f"the data has a field {number} of the form {wire}, which cannot be read"
            )
        size, place = _varint(data, place) if wire == 2 else (8 if wire == 1 else 4, place)
        if place + size > len(data):
            raise InvalidSchemaError("the data ends in the middle of a field")
        yield number, wire, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise InvalidSchemaError("the data ends in the middle of a number")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % _WORD, place
    raise InvalidSchemaError("the data has a number of more than ten bytes")


def varint(value: int) -> bytes:
    """A number of at most 64 bits, seven bits to a byte."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _word(member: _Member, value: int) -> Literal:
    if member.kind == "bool":
        return Literal("true" if value else "false")
    if member.kind in _ZIGZAG:
        return Literal(str(value >> 1 ^ -(value & 1)))
    if not member.kind.startswith("uint") and value >= _WORD // 2:
        value -= _WORD
    if isinstance(member.target, Enumeration):
        names = (each.name for each in member.target.constants if each.number == value)
        return Literal(next(names, str(value)))
    return Literal(str(value))


def _whole(member: _Member, word: str) -> int:
    if member.kind == "bool":
        return {"true": 1, "false": 0}[word] if word in ("true", "false") else int(word)
    if isinstance(member.target, Enumeration):
        for each in member.target.constants:
            if each.name == word:
                return each.number
    number = int(word, 0)
    return number << 1 ^ number >> 63 if member.kind in _ZIGZAG else number


def _unpacked(fixed: str, payload: bytes) -> Literal:
    try:
        value = struct.unpack(fixed, payload)[0]
    except struct.error as error:
        raise InvalidSchemaError("the data has a number of the wrong size") from error
    if fixed == "<f":
        shortest = (float(f"{value:.{digits}g}") for digits in range(6, 10))
        value = next((each for each in shortest if struct.pack("<f", each) == payload), value)
    return Literal(str(value))


def _text_of(value: Value) -> str:
    return value.text if isinstance(value, Literal) else value if isinstance(value, str) else ""


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
