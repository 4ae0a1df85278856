"""An Avro schema as Java's Avro writes it: the text by which registries recognise a schema.

Nothing is lost: docs, aliases, defaults and unknown properties stay. Written the same are schemas that differ only
in spaces, in the order of keys, in how a name gets its namespace, and in `{"type": "string"}` for `"string"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.schemas.avro.names import namespace_of, relative_name, simple_name
from ottla.schemas.avro.types import (
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
    Union,
)
from ottla.schemas.json_text import to_json

# What stands before the other properties in a normal text.
_LOGICAL: Final = ("logicalType", "precision", "scale")


def canonical_text(schema: AvroSchema, is_normal: bool = False) -> str:
    """The text; with `is_normal`, properties are sorted as Confluent's registry sorts them."""
    return to_json(_Writer(is_normal).node(schema.root, ""))


class _Writer:
    def __init__(self, is_normal: bool) -> None:
        self._is_normal = is_normal

    def node(self, node: Node, namespace: str) -> Any:
        """The JSON of a type inside of a namespace."""
        match node:
            case Primitive(name, properties):
                return {"type": name, **self._ordered(properties)} if properties else name
            case Named(full_name):
                return relative_name(full_name, namespace)
            case Union(branches):
                return [self.node(each, namespace) for each in branches]
            case Array(items, properties):
                return {"type": "array", "items": self.node(items, namespace), **self._ordered(properties)}
            case Map(values, properties):
                return {"type": "map", "values": self.node(values, namespace), **self._ordered(properties)}
        return self._definition(node, namespace)

    def _definition(self, node: Definition, outer: str) -> dict[str, Any]:
        own = namespace_of(node.full_name)
        written: dict[str, Any] = {"type": "", "name": simple_name(node.full_name)}
        if own != outer:
            written["namespace"] = own
        if node.doc is not None:
            written["doc"] = node.doc
        if isinstance(node, Enumeration):
            written |= {"type": "enum", "symbols": list(node.symbols)}
            if node.default is not None:
                written["default"] = node.default
        elif isinstance(node, Fixed):
            written |= {"type": "fixed", "size": node.size_bytes}
        else:
            written["type"] = "error" if node.is_error else "record"
            written["fields"] = [self._field(each, own) for each in node.fields]
        written |= self._ordered(node.properties)
        if node.aliases:
            written["aliases"] = [relative_name(each, own) for each in node.aliases]
        return written

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": field.name, "type": self.node(field.type, namespace)}
        if field.doc is not None:
            written["doc"] = field.doc
        if field.has_default:
            written["default"] = field.default
        if field.order not in (None, "ascending"):
            written["order"] = field.order
        if field.aliases:
            written["aliases"] = list(field.aliases)
        return written | self._ordered(field.properties)

    def _ordered(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        if not self._is_normal:
            return dict(properties)
        first = {
            key: properties[key] for key in _LOGICAL if key in properties and "logicalType" in properties
        }
        return first | {key: properties[key] for key in sorted(properties) if key not in first}
