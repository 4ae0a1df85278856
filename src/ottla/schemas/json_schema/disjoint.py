"""Whether two schemas have no value in common: only said if it can be shown."""

from __future__ import annotations

from typing import Final

from ottla.schemas.json_schema.facts import types_of, value_key, values_of
from ottla.schemas.json_schema.model import JsonSchema, Node

# Tags of variants are near the top, and few.
_MOST_LEVELS: Final = 2
_MOST_NAMES: Final = 50
Place = tuple[JsonSchema, Node, Node]


def are_disjoint(one: Place, other: Place, depth: int = 0) -> bool:
    """By types, by listed values, or by a property that both demand (the tag of a variant)."""
    if depth > _MOST_LEVELS:
        return False
    first, second = _resolved(one), _resolved(other)
    shared = types_of(*first) & types_of(*second)
    if not shared:
        return True
    left, right = values_of(first[1]), values_of(second[1])
    if left is not None and right is not None:
        return not {value_key(each) for each in left} & {value_key(each) for each in right}
    return shared == {"object"} and _differ_in_a_property(first, second, depth)


def _differ_in_a_property(one: Place, other: Place, depth: int) -> bool:
    (first, a, home), (second, b, away) = one, other
    if not isinstance(a, dict) or not isinstance(b, dict):
        return False
    required = {*_names(a), *_names(b)}
    shared = sorted(required & a.get("properties", {}).keys() & b.get("properties", {}).keys())
    for name in shared[:_MOST_NAMES]:
        if are_disjoint(
            (first, a["properties"][name], home), (second, b["properties"][name], away), depth + 1
        ):
            return True
    return any(
        owner.get("additionalProperties") is False
        and not owner.get("patternProperties")
        and set(_names(demanding)) - owner.get("properties", {}).keys()
        for owner, demanding in ((a, b), (b, a))
    )


def _names(node: dict[str, object]) -> list[str]:
    required = node.get("required")
    return required if isinstance(required, list) else []


def _resolved(place: Place) -> Place:
    """A schema that is nothing but a reference, as what it leads to."""
    schema, node, home = place
    if isinstance(node, dict) and set(node) == {"$ref"}:
        target, root = schema.resolved(node, home)
        return schema, target, root
    return place
