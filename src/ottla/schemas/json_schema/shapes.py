"""What each keyword of JSON Schema must look like; keywords that nobody knows are notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.schemas.schema import InvalidSchemaError, shown

TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_MOST_LEVELS: Final = 100
# They change what other keywords mean from afar.
_UNSERVED: Final = ("$dynamicRef", "$recursiveRef")
SCHEMA: Final = frozenset(
    {
        *(
            "additionalItems",
            "additionalProperties",
            "contains",
            "else",
            "if",
            "not",
            "propertyNames",
            "then",
        ),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    }
)
SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_MAPS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_COUNTS: Final = frozenset(
    {
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("minContains", "maxContains"),
    }
)
_TEXTS: Final = frozenset({"$ref", "$id", "$anchor", "$schema", "pattern", "format"})

Follow = Callable[[str], object]


def check_shapes(root: object, follow: Follow) -> None:
    """Walk over a schema; `follow` raises InvalidSchemaError if a reference leads nowhere, and so does this."""
    waiting: list[tuple[Any, str, int]] = [(root, "", 0)]
    while waiting:
        node, path, depth = waiting.pop()
        if depth > _MOST_LEVELS:
            raise InvalidSchemaError(
                f"{path[:100]}...: the schema is nested deeper than {_MOST_LEVELS} levels"
            )
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            raise InvalidSchemaError(
                f"{path or '/'}: a schema must be an object, true or false, not {shown(node)}"
            )
        if "$ref" in node and isinstance(node["$ref"], str):
            follow(node["$ref"])
        if path and not str(node.get("$id", "#")).startswith("#"):
            raise InvalidSchemaError(f"{path}/$id: a schema with an $id inside of another one is not served")
        for keyword, value in node.items():
            below = f"{path}/{keyword}"
            _check_value(keyword, value, below)
            waiting += [(each, f"{below}{end}", depth + 1) for end, each in _inside(keyword, value, below)]


def _inside(keyword: str, value: Any, path: str) -> list[tuple[str, Any]]:
    """The schemas within a keyword."""
    if keyword in SCHEMA or (keyword == "items" and not isinstance(value, list)):
        return [("", value)]
    if keyword in SCHEMA_LISTS or keyword == "items":
        if not isinstance(value, list):
            raise InvalidSchemaError(f"{path}: it must be a list of schemas, not {shown(value)}")
        return [(f"/{index}", each) for index, each in enumerate(value)]
    if keyword in SCHEMA_MAPS:
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"{path}: it must be an object of schemas, not {shown(value)}")
        return [(f"/{name}", each) for name, each in value.items()]
    return []


def _check_value(keyword: str, value: Any, path: str) -> None:
    if keyword in _UNSERVED:
        raise InvalidSchemaError(f"{path}: {keyword} is not served: use $ref")
    if keyword == "type":
        named = value if isinstance(value, list) else [value]
        if not named or any(not isinstance(each, str) or each not in TYPES for each in named):
            raise InvalidSchemaError(f"{path}: there is no type {shown(value)}: {', '.join(sorted(TYPES))}")
    elif keyword in _TEXTS and not isinstance(value, str):
        raise InvalidSchemaError(f"{path}: it must be a text, not {shown(value)}")
    elif keyword in _COUNTS and not (_is_number(value) and value >= 0 and value == int(value)):
        raise InvalidSchemaError(f"{path}: it must be a whole number, not {shown(value)}")
    elif (keyword in ("minimum", "maximum") and not _is_number(value)) or (
        keyword in ("exclusiveMinimum", "exclusiveMaximum") and not isinstance(value, bool | int | float)
    ):
        raise InvalidSchemaError(f"{path}: it must be a number, not {shown(value)}")
    elif keyword == "multipleOf" and not (_is_number(value) and value > 0):
        raise InvalidSchemaError(f"{path}: it must be a number over 0, not {shown(value)}")
    elif keyword == "enum" and not isinstance(value, list):
        raise InvalidSchemaError(f"{path}: it must be a list, not {shown(value)}")
    elif keyword == "required" and not isinstance(value, bool) and not _is_names(value):
        raise InvalidSchemaError(f"{path}: it must be a list of names, not {shown(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
