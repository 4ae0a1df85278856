"""A JSON Schema with all that it refers to. References lead within the schema or to an imported one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from ottla.schemas.json_schema.shapes import check_shapes
from ottla.schemas.json_text import parse_json, to_json
from ottla.schemas.schema import Imported, InvalidSchemaError, shown

Node: TypeAlias = dict[str, Any] | bool
# References that lead to references; more are a circle.
_MOST_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The root of a schema, and of each imported one by its name. `types` remembers what facts.py finds out."""

    root: Node
    imported: dict[str, Node]
    original: Node
    types: dict[int, frozenset[str]] = field(default_factory=dict)

    def resolved(self, node: Node, home: Node) -> tuple[Node, Node]:
        """The schema that a `$ref` leads to, and the root that it belongs to. Raises InvalidSchemaError."""
        for _ in range(_MOST_STEPS):
            if not isinstance(node, dict) or "$ref" not in node:
                return node, home
            node, home = self.target(node["$ref"], home)
        raise InvalidSchemaError("its references form a circle")

    def target(self, reference: str, home: Node) -> tuple[Node, Node]:
        """Where a reference leads. Raises InvalidSchemaError."""
        address, _, fragment = reference.partition("#")
        root = home if not address or address == _id_of(home) else self.imported.get(address)
        if root is None:
            raise InvalidSchemaError(
                f"the reference {shown(reference)} leads nowhere: name it in the references of the schema"
            )
        if fragment and not fragment.startswith("/"):
            return _anchored(root, fragment), root
        node: Any = root
        for part in fragment.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and name.isascii() and name.isdigit() and int(name) < len(node):
                node = node[int(name)]
            elif isinstance(node, dict) and name in node:
                node = node[name]
            else:
                raise InvalidSchemaError(
                    f"the reference {shown(reference)} leads nowhere: there is no {shown(name)}"
                )
        if not isinstance(node, dict | bool):
            raise InvalidSchemaError(
                f"the reference {shown(reference)} leads to {shown(node)}, which is no schema"
            )
        return node, root


def parse_json_schema(text: str, imports: Sequence[Imported] = ()) -> JsonSchema:
    """Read a schema and those that it refers to. Raises InvalidSchemaError."""
    imported: dict[str, Node] = {}
    for each in imports:
        root = _obeyed(_root(each.text, f"the referenced schema {each.name}: "))
        imported[each.name] = root
        imported.setdefault(_id_of(root) or each.name, root)
    original = _root(text, "")
    schema = JsonSchema(_obeyed(original), imported, original)
    for root in (schema.root, *imported.values()):
        check_shapes(root, partial(schema.target, home=root))
    return schema


def canonical_text(schema: JsonSchema, is_normal: bool = False) -> str:
    """The text without spaces; normal texts have their keys sorted."""
    return to_json(_sorted(schema.original) if is_normal else schema.original)


def _root(text: str, where: str) -> Node:
    value = parse_json(text)
    if not isinstance(value, dict | bool):
        raise InvalidSchemaError(f"{where}a JSON Schema must be an object, true or false, not {shown(value)}")
    return value


def _obeyed(root: Node) -> Node:
    """A schema of a draft before 2019 without the neighbours of each `$ref`, which those drafts ignore."""
    named = root.get("$schema") if isinstance(root, dict) else None
    is_old = isinstance(named, str) and any(f"draft-0{each}" in named for each in "34567")
    made: Node = _alone(root) if is_old else root
    return made


def _alone(value: Any) -> Any:
    if isinstance(value, list):
        return [_alone(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("$ref"), str):
        kept = ("$ref", "$schema", "$id", "id", "definitions", "$defs")
        return {key: _alone(each) for key, each in value.items() if key in kept}
    return {key: _alone(each) for key, each in value.items()}


def _id_of(node: Node) -> str:
    found = node.get("$id", node.get("id")) if isinstance(node, dict) else None
    return found.rstrip("#") if isinstance(found, str) else ""


def _anchored(root: Node, name: str) -> Node:
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("$anchor") == name or node.get("$id", node.get("id")) == f"#{name}":
                return node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    raise InvalidSchemaError(f"there is no $anchor {shown(name)}")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
