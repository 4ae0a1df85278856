"""Whether a default, which is JSON, is a value of its field's type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.schemas.avro.types import (
    Array,
    Definition,
    Enumeration,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Union,
)

_INT: Final = range(-(2**31), 2**31)
_LONG: Final = range(-(2**63), 2**63)


def fits(value: Any, node: Node, definitions: Mapping[str, Definition]) -> bool:
    """Whether JSON's `value` is one of the type. A union's default may be of any branch, as of Avro 1.12."""
    if isinstance(node, Named):
        node = definitions[node.full_name]
    match node:
        case Primitive(name):
            return _is_simple(value, name)
        case Union(branches):
            return any(fits(value, each, definitions) for each in branches)
        case Array(items):
            return isinstance(value, list) and all(fits(each, items, definitions) for each in value)
        case Map(values):
            return isinstance(value, dict) and all(fits(each, values, definitions) for each in value.values())
        case Enumeration(symbols=symbols):
            return value in symbols
        case Fixed(size_bytes=size):
            return _is_bytes(value) and len(value) == size
    return _is_record(value, node, definitions)


def _is_record(value: Any, record: Record, definitions: Mapping[str, Definition]) -> bool:
    return isinstance(value, dict) and all(
        fits(value[each.name], each.type, definitions) if each.name in value else each.has_default
        for each in record.fields
    )


def _is_simple(value: Any, name: str) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return _is_bytes(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if name in ("float", "double"):
        return True
    return isinstance(value, int) and value in (_INT if name == "int" else _LONG)


def _is_bytes(value: Any) -> bool:
    """Bytes are written as a text of the characters 0 to 255."""
    return isinstance(value, str) and all(ord(each) < 256 for each in value)
