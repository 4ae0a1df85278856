"""Demands on simple values: types, listed values, bounds. Each follows from the writer's schema, or does not."""

from __future__ import annotations

from typing import Any, Final

from ottla.schemas.json_schema.facts import lower_bound, upper_bound, value_key, values_of
from ottla.schemas.json_schema.model import Node
from ottla.schemas.schema import Incompatibility, listed, shown

# Keyword: the type it speaks of, and whether more is stricter.
_COUNTS: Final = {
    "minLength": ("string", True),
    "maxLength": ("string", False),
    "minItems": ("array", True),
    "maxItems": ("array", False),
    "minProperties": ("object", True),
    "maxProperties": ("object", False),
}
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIMPLE: Final = ("type", "enum", "const", "multipleOf", "pattern", "uniqueItems", *_BOUNDS, *_COUNTS)


def simple_demands(node: dict[str, Any]) -> list[str]:
    """The keywords of a schema that this module knows."""
    return [each for each in _SIMPLE if each in node]


def bounds_follow(
    demand: str, reader: dict[str, Any], writer: Node, types: frozenset[str], path: str
) -> list[Incompatibility]:
    """Whether one such demand is met by all values of the writer's, which have these types."""
    given = writer if isinstance(writer, dict) else {}
    where = f"{path}/{demand}"
    match demand:
        case "type":
            return _types(reader["type"], types, where)
        case "enum" | "const":
            return _values(values_of({demand: reader[demand]}) or [], values_of(given), where)
        case "multipleOf":
            return _multiple(reader["multipleOf"], given.get("multipleOf"), types, where)
        case "pattern":
            is_met = "string" not in types or given.get("pattern") == reader["pattern"]
            return [] if is_met else [_narrowed("PATTERN_CHANGED", where, "pattern", reader, given)]
        case "uniqueItems":
            is_met = "array" not in types or not reader["uniqueItems"] or bool(given.get("uniqueItems"))
            return [] if is_met else [_narrowed("UNIQUE_ITEMS_ADDED", where, "uniqueItems", reader, given)]
    if demand in _BOUNDS:
        return _number_bound(demand, reader, given, types, where)
    return _count(demand, reader, given, types, where)


def described(node: Node) -> str:
    """What a message calls a schema."""
    if not isinstance(node, dict):
        return "anything" if node else "nothing"
    for keyword in ("title", "$ref", "type", "const"):
        if keyword in node:
            return f"{keyword} {shown(node[keyword], 60)}"
    return shown(node, 60)


def _types(wanted: Any, types: frozenset[str], where: str) -> list[Incompatibility]:
    named = set(wanted if isinstance(wanted, list) else [wanted])
    if "number" in named:
        named.add("integer")
    surplus = sorted(types - named)
    if not surplus:
        return []
    message = f"the reader expects {listed(sorted(named))}, and the writer may write {listed(surplus)}"
    return [Incompatibility("TYPE_NARROWED", where, message)]


def _values(wanted: list[Any], given: list[Any] | None, where: str) -> list[Incompatibility]:
    if given is None:
        message = f"the reader takes only {listed([shown(each, 20) for each in wanted])}, the writer has no such list"
        return [Incompatibility("ENUM_ARRAY_NARROWED", where, message)]
    known = {value_key(each) for each in wanted}
    surplus = [shown(each, 20) for each in given if value_key(each) not in known]
    if not surplus:
        return []
    return [
        Incompatibility(
            "ENUM_ARRAY_NARROWED", where, f"the reader does not take the writer's {listed(surplus)}"
        )
    ]


def _multiple(wanted: float, given: float | None, types: frozenset[str], where: str) -> list[Incompatibility]:
    if not types & {"number", "integer"} or (given is not None and given % wanted == 0):
        return []
    if "number" not in types and wanted == 1:
        return []
    message = (
        f"the reader takes only multiples of {wanted}, the writer's are multiples of {given or 'anything'}"
    )
    return [Incompatibility("MULTIPLE_OF_CHANGED", where, message)]


def _number_bound(
    demand: str, reader: dict[str, Any], writer: dict[str, Any], types: frozenset[str], where: str
) -> list[Incompatibility]:
    bound, sign = (lower_bound, 1) if "inimum" in demand else (upper_bound, -1)
    wanted, given = bound(reader), bound(writer)
    if wanted is None or not types & {"number", "integer"}:
        return []
    if given is not None:
        inside = sign * given[0] > sign * wanted[0]
        if inside or (given[0] == wanted[0] and (given[1] or not wanted[1])):
            return []
    return [_narrowed(f"{'MINIMUM' if sign > 0 else 'MAXIMUM'}_NARROWED", where, demand, reader, writer)]


def _count(
    demand: str, reader: dict[str, Any], writer: dict[str, Any], types: frozenset[str], where: str
) -> list[Incompatibility]:
    kind, is_least = _COUNTS[demand]
    wanted, given = reader[demand], writer.get(demand)
    if kind not in types or (is_least and wanted == 0):
        return []
    if given is not None and (given >= wanted if is_least else given <= wanted):
        return []
    word = "".join(f"_{each}" if each.isupper() else each.upper() for each in demand)
    return [_narrowed(f"{word}_NARROWED", where, demand, reader, writer)]


def _narrowed(
    kind: str, where: str, keyword: str, reader: dict[str, Any], writer: dict[str, Any]
) -> Incompatibility:
    before = shown(writer[keyword], 40) if keyword in writer else "none"
    return Incompatibility(
        kind, where, f"the reader has {keyword} {shown(reader[keyword], 40)}, the writer {before}"
    )
