"""What can be said of all values of a schema: their types, and the numbers that bound them."""

from __future__ import annotations

import json
from typing import Any, Final

from ottla.schemas.json_schema.model import JsonSchema, Node
from ottla.schemas.json_schema.shapes import TYPES

ALL: Final = TYPES


def types_of(schema: JsonSchema, node: Node, home: Node) -> frozenset[str]:
    """The types that values of a schema may have; perhaps more than they do. "number" has "integer" beside it."""
    if isinstance(node, bool):
        return ALL if node else frozenset()
    known = schema.types.get(id(node))
    if known is not None:
        return known
    schema.types[id(node)] = ALL  # what contains itself is not known better
    found = schema.types[id(node)] = _found_types(schema, node, home)
    return found


def _found_types(schema: JsonSchema, node: dict[str, Any], home: Node) -> frozenset[str]:
    found = ALL
    if "$ref" in node:
        target, root = schema.target(node["$ref"], home)
        found &= types_of(schema, target, root)
    if "type" in node:
        named = node["type"] if isinstance(node["type"], list) else [node["type"]]
        found &= frozenset(named) | (frozenset({"integer"}) if "number" in named else frozenset())
    values = values_of(node)
    if values is not None:
        found &= {name for each in values for name in _types_of_value(each)}
    for each in node.get("allOf", ()):
        found &= types_of(schema, each, home)
    for keyword in ("anyOf", "oneOf"):
        if keyword in node:
            branches = [types_of(schema, each, home) for each in node[keyword]]
            found &= {name for each in branches for name in each}
    return found


def values_of(node: Node) -> list[Any] | None:
    """The values that `enum` or `const` list."""
    if not isinstance(node, dict):
        return None
    if "const" in node:
        return [node["const"]]
    found: list[Any] | None = node.get("enum")
    return found


def lower_bound(node: dict[str, Any]) -> tuple[float, bool] | None:
    """The least number, and whether it is itself excluded; in draft 4, `exclusiveMinimum` is true or false."""
    return _bound(node, "minimum", "exclusiveMinimum", 1)


def upper_bound(node: dict[str, Any]) -> tuple[float, bool] | None:
    """The greatest number, and whether it is itself excluded."""
    return _bound(node, "maximum", "exclusiveMaximum", -1)


def value_key(value: Any) -> str:
    """The same text for equal values, and only for those."""
    return json.dumps(_whole(value), sort_keys=True)


def equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: 1 is 1.0 and is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value


def _bound(node: dict[str, Any], plain: str, exclusive: str, sign: int) -> tuple[float, bool] | None:
    limit, strict = node.get(plain), node.get(exclusive)
    if strict is True:
        return None if limit is None else (limit, True)
    if strict is None or strict is False:
        return None if limit is None else (limit, False)
    if limit is None or sign * strict >= sign * limit:
        return strict, True
    return limit, False


def _types_of_value(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float):
        return frozenset({"integer", "number"} if value == value // 1 else {"number"})
    return frozenset(
        {"string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"}
    )
