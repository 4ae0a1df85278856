"""An Avro schema from its JSON, with a sentence for everything that is wrong and the place where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.schemas.avro.defaults import fits
from ottla.schemas.avro.names import (
    checked_full_name,
    checked_name,
    checked_namespace,
    full_name,
    namespace_of,
)
from ottla.schemas.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    AvroSchema,
    Definition,
    Enumeration,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Union,
    type_name,
)
from ottla.schemas.json_text import parse_json
from ottla.schemas.schema import Imported, InvalidSchemaError, listed, shown

# Deeper ones are mistakes, and every walk over a schema is recursive.
_MOST_LEVELS: Final = 100
_OWN_KEYS: Final = {
    "record": frozenset({"type", "name", "namespace", "doc", "aliases", "fields"}),
    "error": frozenset({"type", "name", "namespace", "doc", "aliases", "fields"}),
    "enum": frozenset({"type", "name", "namespace", "doc", "aliases", "symbols", "default"}),
    "fixed": frozenset({"type", "name", "namespace", "doc", "aliases", "size"}),
    "array": frozenset({"type", "items"}),
    "map": frozenset({"type", "values"}),
    "field": frozenset({"type", "name", "doc", "default", "order", "aliases"}),
}
_ORDERS: Final = ("ascending", "descending", "ignore")


def parse_avro(text: str, imports: Sequence[Imported] = ()) -> AvroSchema:
    """Read a schema, and before it those that it refers to. Raises InvalidSchemaError."""
    definitions: dict[str, Definition] = {}
    for each in imports:
        try:
            _Parser(definitions).node(_value_of(each.text), "", "", 0)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(f"the referenced schema {each.name}: {error}") from error
    imported = frozenset(definitions)
    parser = _Parser(definitions)
    root = parser.node(_value_of(text), "", "", 0)
    parser.check_defaults()
    return AvroSchema(root, definitions, imported)


def _value_of(text: str) -> Any:
    # The name of a simple type may stand without quotation marks, as clients write it.
    return text.strip() if text.strip() in PRIMITIVES else parse_json(text)


class _Parser:
    """Reads one schema; `definitions` are known before, and gets those that the schema defines."""

    def __init__(self, definitions: dict[str, Definition]) -> None:
        self._definitions = definitions
        self._open: set[str] = set()
        self._defaults: list[tuple[str, Any, Node]] = []

    def node(self, value: Any, namespace: str, path: str, depth: int) -> Node:
        """Any type."""
        if depth > _MOST_LEVELS:
            raise InvalidSchemaError(
                f"{path[:100]}...: the schema is nested deeper than {_MOST_LEVELS} levels"
            )
        if isinstance(value, str):
            return self._by_name(value, namespace, path)
        if isinstance(value, list):
            return self._union(value, namespace, path, depth)
        if not isinstance(value, dict):
            raise InvalidSchemaError(
                f"{path or '/'}: a type must be a name, an object or a list, not {shown(value)}"
            )
        kind = value.get("type")
        if isinstance(kind, dict | list):
            return self.node(kind, namespace, f"{path}/type", depth + 1)
        if not isinstance(kind, str):
            raise InvalidSchemaError(f'{path or "/"}: "type" is missing')
        return self._object(kind, value, namespace, path, depth)

    def check_defaults(self) -> None:
        """Whether each default fits its field, once all names are known. Raises InvalidSchemaError."""
        for path, value, node in self._defaults:
            if not fits(value, node, self._definitions):
                raise InvalidSchemaError(
                    f"{path}: the default {shown(value)} is no value of the field's type {type_name(node)}"
                )

    def _by_name(self, name: str, namespace: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        for candidate in (full_name(name, namespace), name):
            if candidate in self._definitions or candidate in self._open:
                return Named(candidate)
        raise InvalidSchemaError(
            f"{path or '/'}: there is no type {shown(name)}: define it before it is used, or refer to its schema"
        )

    def _object(self, kind: str, value: dict[str, Any], namespace: str, path: str, depth: int) -> Node:
        if kind in PRIMITIVES:
            return Primitive(kind, _others(value, {"type"}))
        match kind:
            case "array":
                items = self.node(_needed(value, "items", path), namespace, f"{path}/items", depth + 1)
                return Array(items, _others(value, _OWN_KEYS["array"]))
            case "map":
                values = self.node(_needed(value, "values", path), namespace, f"{path}/values", depth + 1)
                return Map(values, _others(value, _OWN_KEYS["map"]))
            case "record" | "error" | "enum" | "fixed":
                return self._definition(kind, value, namespace, path, depth)
        return self._by_name(kind, namespace, path)

    def _union(self, value: list[Any], namespace: str, path: str, depth: int) -> Union:
        branches = tuple(
            self.node(each, namespace, f"{path}/{index}", depth + 1) for index, each in enumerate(value)
        )
        names = [type_name(each) for each in branches]
        if "union" in names:
            raise InvalidSchemaError(f"{path or '/'}: a union cannot be a branch of a union")
        if len(set(names)) < len(names):
            twice = sorted({each for each in names if names.count(each) > 1})
            raise InvalidSchemaError(f"{path or '/'}: the union has {listed(twice)} more than once")
        return Union(branches)

    def _definition(self, kind: str, value: dict[str, Any], outer: str, path: str, depth: int) -> Node:
        where = path or "/"
        own = value.get("namespace")
        namespace = outer if own is None else checked_namespace(own, where)
        name = checked_full_name(value.get("name"), namespace, where)
        if name in self._definitions or name in self._open:
            raise InvalidSchemaError(f"{where}: {name} is defined twice")
        self._open.add(name)
        inside = namespace_of(name)
        common: dict[str, Any] = {
            "doc": _text(value, "doc", where),
            "aliases": tuple(
                checked_full_name(each, inside, where) for each in _texts(value, "aliases", where)
            ),
            "properties": _others(value, _OWN_KEYS[kind]),
        }
        made: Definition
        if kind == "enum":
            made = _enumeration(name, value, where, common)
        elif kind == "fixed":
            made = Fixed(name, _size(value, where), **common)
        else:
            fields = self._fields(value, inside, path, depth)
            made = Record(name, fields, is_error=kind == "error", **common)
        self._open.discard(name)
        self._definitions[name] = made
        return made

    def _fields(self, value: dict[str, Any], namespace: str, path: str, depth: int) -> tuple[Field, ...]:
        given = _needed(value, "fields", path)
        if not isinstance(given, list):
            raise InvalidSchemaError(f'{path or "/"}: "fields" must be a list, not {shown(given)}')
        fields = tuple(
            self._field(each, namespace, f"{path}/fields/{index}", depth) for index, each in enumerate(given)
        )
        _check_unique((each.name for each in fields), "the field", path or "/")
        return fields

    def _field(self, value: Any, namespace: str, path: str, depth: int) -> Field:
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"{path}: a field must be an object, not {shown(value)}")
        name = checked_name(value.get("name"), path)
        node = self.node(_needed(value, "type", path), namespace, f"{path}/type", depth + 1)
        order = _text(value, "order", path)
        if order is not None and order not in _ORDERS:
            raise InvalidSchemaError(f'{path}: "order" can be {", ".join(_ORDERS)}, not {shown(order)}')
        if "default" in value:
            self._defaults.append((f"{path}/default", value["default"], node))
        return Field(
            name,
            node,
            default=value.get("default", NO_DEFAULT),
            doc=_text(value, "doc", path),
            order=order,
            aliases=tuple(checked_name(each, path) for each in _texts(value, "aliases", path)),
            properties=_others(value, _OWN_KEYS["field"]),
        )


def _enumeration(name: str, value: dict[str, Any], where: str, common: dict[str, Any]) -> Enumeration:
    symbols = tuple(checked_name(each, where) for each in _texts(value, "symbols", where, is_needed=True))
    _check_unique(symbols, "the symbol", where)
    default = _text(value, "default", where)
    if default is not None and default not in symbols:
        raise InvalidSchemaError(f"{where}: the default {shown(default)} is no symbol of {name}")
    return Enumeration(name, symbols, default, **common)


def _size(value: dict[str, Any], where: str) -> int:
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise InvalidSchemaError(f'{where}: "size" must be a whole number of bytes, not {shown(size)}')
    return size


def _needed(value: dict[str, Any], key: str, path: str) -> Any:
    if key not in value:
        raise InvalidSchemaError(f'{path or "/"}: "{key}" is missing')
    return value[key]


def _text(value: dict[str, Any], key: str, where: str) -> str | None:
    found = value.get(key)
    if found is not None and not isinstance(found, str):
        raise InvalidSchemaError(f'{where}: "{key}" must be a text, not {shown(found)}')
    return found


def _texts(value: dict[str, Any], key: str, where: str, is_needed: bool = False) -> list[Any]:
    found = _needed(value, key, where) if is_needed else value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidSchemaError(f'{where}: "{key}" must be a list of names, not {shown(found)}')
    return found


def _check_unique(names: Iterable[str], what: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidSchemaError(f"{where}: {what} {name} is there twice")
        seen.add(name)


def _others(value: Mapping[str, Any], own: frozenset[str] | set[str]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in own}
