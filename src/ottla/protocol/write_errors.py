"""Finds the field of a message that could not be written, so that the error can name it.

This is the slow path: it runs after a compiled writer has failed, and asks each field in turn what is wrong
with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as struct_error
from struct import pack
from typing import Any
from uuid import UUID

from ottla.protocol.declaration import Wire, declaration_of
from ottla.protocol.layout import Field, layout

_SHORT_STRING_BYTES = 32767  # what the int16 length of a non-flexible version can say


def misfit(cls: type[Any], message: Any, version: int, error: Exception) -> ValueError:
    """An error that names the message, the version, the field and what is wrong with its value."""
    title = f"{cls.__name__} v{version}"
    if not isinstance(message, cls):
        return ValueError(f"{title}: cannot write a {type(message).__name__}")
    flexible = declaration_of(cls).is_flexible(version)
    for path, complaint in _complaints(cls, message, version, flexible):
        return ValueError(f"{title}: {path} {complaint}")
    return ValueError(f"{title}: {error}")


def _complaints(cls: type[Any], owner: Any, version: int, flexible: bool) -> Iterator[tuple[str, str]]:
    fields = layout(cls, version)
    for field in (*fields.plain, *fields.tagged):
        value = getattr(owner, field.name)
        for path, complaint in _field_complaints(field, value, version, flexible):
            yield f"{field.name}{path}", complaint


def _field_complaints(field: Field, value: Any, version: int, flexible: bool) -> Iterator[tuple[str, str]]:
    if value is None:
        if not field.is_nullable(version):
            yield "", "may not be null"
    elif not field.is_array:
        yield from _value_complaints(field.kind, value, version, flexible)
    elif not isinstance(value, list | tuple):
        yield "", f"must be a list, not {type(value).__name__}"
    else:
        for index, element in enumerate(value):
            for path, complaint in _value_complaints(field.kind, element, version, flexible):
                yield f"[{index}]{path}", complaint


def _value_complaints(
    kind: Wire | type[Any], value: Any, version: int, flexible: bool
) -> Iterator[tuple[str, str]]:
    if isinstance(kind, Wire):
        complaint = _wire_complaint(kind, value, flexible)
        if complaint:
            yield "", complaint
    elif not isinstance(value, kind):
        yield "", f"must be a {kind.__name__}, not {type(value).__name__}"
    else:
        for path, complaint in _complaints(kind, value, version, flexible):
            yield f".{path}", complaint


def _wire_complaint(wire: Wire, value: Any, flexible: bool) -> str:
    if wire.name == "uuid":
        return "" if isinstance(value, UUID) else f"must be a UUID, not {type(value).__name__}"
    if wire.code:
        return _number_complaint(wire, value)
    if wire.name == "string":
        return _string_complaint(value, flexible)
    return (
        ""
        if isinstance(value, bytes | bytearray | memoryview)
        else f"must be bytes, not {type(value).__name__}"
    )


def _number_complaint(wire: Wire, value: Any) -> str:
    try:
        pack(f">{wire.code}", value)
    except (struct_error, TypeError, OverflowError):
        return f"must be an {wire.name}, not {value!r}"
    return ""


def _string_complaint(value: Any, flexible: bool) -> str:
    if not isinstance(value, str):
        return f"must be a string, not {type(value).__name__}"
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        return "cannot be written as UTF-8"
    if not flexible and len(encoded) > _SHORT_STRING_BYTES:
        return f"is longer than {_SHORT_STRING_BYTES} bytes"
    return ""
