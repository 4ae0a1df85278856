"""Whether a reader's JSON Schema accepts every value that a writer's accepts.

The reader's schema is a conjunction of demands, one for each keyword; each must follow from the writer's schema.
A demand follows from the writer's own keywords, from one of its `allOf`, from what its `$ref` leads to, or from each
branch of its `anyOf` or `oneOf`. What cannot be shown is refused: the answer is never yes by mistake, and sometimes
no where a cleverer proof would have found a yes. A schema that contains itself is assumed to fit while it is looked
at; the walk is repeated until no assumption was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ottla.schemas.json_schema.demands import bounds_follow, described, simple_demands
from ottla.schemas.json_schema.disjoint import are_disjoint
from ottla.schemas.json_schema.facts import equal, types_of, values_of
from ottla.schemas.json_schema.model import JsonSchema, Node
from ottla.schemas.json_text import to_json
from ottla.schemas.schema import Incompatibility, InvalidSchemaError

# A step is one demand of one pair of schemas; more take seconds.
_MOST_STEPS: Final = 100_000
_MOST_LEVELS: Final = 60
# Only the same text follows from itself.
_OPAQUE: Final = (
    *("contains", "minContains", "maxContains", "dependencies", "dependentRequired", "dependentSchemas"),
    *("if", "then", "else"),
)
_TYPES_OF: Final = {
    **dict.fromkeys(("contains", "minContains", "maxContains"), "array"),
    **dict.fromkeys(("dependencies", "dependentRequired", "dependentSchemas"), "object"),
}


class Place(NamedTuple):
    """A schema, and the root that its references belong to."""

    node: Node
    home: Node


def unaccepted(reader: JsonSchema, writer: JsonSchema) -> list[Incompatibility]:
    """Why the reader's schema may refuse a value of the writer's; nothing if it accepts all of them."""
    refuted: dict[tuple[int, int], list[Incompatibility]] = {}
    while True:
        known = len(refuted)
        walk = _Walk(reader, writer, refuted)
        found = walk.schemas(Place(reader.root, reader.root), Place(writer.root, writer.root), "", 0)
        if len(refuted) == known:
            return found


class _Walk:
    """One walk over both schemas. `refuted` gets the pairs that turn out not to fit."""

    def __init__(
        self, reader: JsonSchema, writer: JsonSchema, refuted: dict[tuple[int, int], list[Incompatibility]]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._refuted = refuted
        self._open: set[tuple[int, int]] = set()
        self._steps = 0

    def schemas(self, reader: Place, writer: Place, path: str, depth: int) -> list[Incompatibility]:
        """All demands of the reader's schema."""
        self._count_step()
        if reader.node is True or writer.node is False or reader.node == {}:
            return []
        if isinstance(reader.node, bool):
            return [
                Incompatibility(
                    "SCHEMA_NARROWED", path or "/", "the reader accepts nothing here, the writer does"
                )
            ]
        pair = id(reader.node), id(writer.node)
        if pair in self._refuted:
            return self._refuted[pair]
        if pair in self._open:
            return []
        if depth > _MOST_LEVELS:
            raise InvalidSchemaError("the schemas are nested too deeply to be compared")
        self._open.add(pair)
        found = [
            each
            for demand in self._demands(reader)
            for each in self._follows(demand, reader, writer, path, depth)
        ]
        self._open.discard(pair)
        if found:
            self._refuted[pair] = found
        return found

    def _demands(self, reader: Place) -> Iterator[str]:
        """The keywords that demand something."""
        assert isinstance(reader.node, dict)
        groups = (*simple_demands(reader.node), "$ref", "allOf", "anyOf", "oneOf", "not", *_OPAQUE)
        own = reader.node
        yield from (each for each in groups if each in own)
        if any(each in own for each in ("properties", "patternProperties", "additionalProperties")):
            yield "properties"
        yield from (each for each in ("propertyNames", "required") if each in own)
        if any(each in own for each in ("items", "prefixItems", "additionalItems")):
            yield "items"
        yield from (each for each in ("unevaluatedProperties", "unevaluatedItems") if each in own)

    def _follows(
        self, demand: str, reader: Place, writer: Place, path: str, depth: int
    ) -> list[Incompatibility]:
        """One demand: from the writer's schema itself, or from its parts."""
        self._count_step()
        found = self._from_itself(demand, reader, writer, path, depth)
        if not found or not isinstance(writer.node, dict) or depth > _MOST_LEVELS:
            return found
        node: dict[str, Any] = writer.node
        home = writer.home
        every = [Place(each, home) for each in node.get("allOf", ())]
        if "$ref" in node:
            every.append(Place(*self._writer.target(node["$ref"], home)))
        for each in every:
            if not self._follows(demand, reader, each, path, depth + 1):
                return []
        for keyword in ("anyOf", "oneOf"):
            branches = [Place(each, home) for each in node.get(keyword, ())]
            if branches and not any(
                self._from_branch(demand, reader, each, node if keyword == "oneOf" else {}, path, depth + 1)
                for each in branches
            ):
                return []
        return found

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidSchemaError("the schemas are too large to be compared")

    def _from_branch(
        self, demand: str, reader: Place, branch: Place, one_of: dict[str, Any], path: str, depth: int
    ) -> list[Incompatibility]:
        if demand != "oneOf" or not one_of:
            return self._follows(demand, reader, branch, path, depth)
        others = [each for each in one_of["oneOf"] if each is not branch.node]
        return self._one_of(reader, branch, path, depth, others)

    def _from_itself(
        self, demand: str, reader: Place, writer: Place, path: str, depth: int
    ) -> list[Incompatibility]:
        assert isinstance(reader.node, dict)
        match demand:
            case "$ref":
                target = Place(*self._reader.target(reader.node["$ref"], reader.home))
                return self.schemas(target, writer, path, depth + 1)
            case "allOf":
                parts = [Place(each, reader.home) for each in reader.node["allOf"]]
                return [why for each in parts for why in self.schemas(each, writer, path, depth + 1)]
            case "anyOf":
                return self._any_of(reader, writer, path, depth)
            case "oneOf":
                return self._one_of(reader, writer, path, depth, [])
            case "not":
                return self._negation(reader, writer, path, depth)
            case "properties" | "propertyNames" | "required":
                return self._if_type(
                    "object", writer, lambda node: self._object(demand, reader, node, path, depth)
                )
            case "items":
                return self._if_type("array", writer, lambda node: self._items(reader, node, path, depth))
        types = types_of(self._writer, writer.node, writer.home)
        if demand in _OPAQUE or demand.startswith("unevaluated"):
            return self._opaque(demand, reader, writer, types, path)
        return bounds_follow(demand, reader.node, writer.node, types, path)

    def _opaque(
        self, demand: str, reader: Place, writer: Place, types: frozenset[str], path: str
    ) -> list[Incompatibility]:
        assert isinstance(reader.node, dict)
        own, given = reader.node, writer.node if isinstance(writer.node, dict) else {}
        kind = _TYPES_OF.get(demand)
        if kind is not None and kind not in types:
            return []
        if demand.startswith("unevaluated"):
            is_same = _same(_without_notes(own), _without_notes(given), reader.home, writer.home)
        else:
            group = ("if", "then", "else") if demand in ("if", "then", "else") else (demand,)
            is_same = all(_same(own.get(each), given.get(each), reader.home, writer.home) for each in group)
        message = f"{demand} was added or changed, which cannot be compared"
        return [] if is_same else [Incompatibility("KEYWORD_CHANGED", f"{path}/{demand}", message)]

    def _any_of(self, reader: Place, writer: Place, path: str, depth: int) -> list[Incompatibility]:
        assert isinstance(reader.node, dict)
        for index, each in enumerate(reader.node["anyOf"]):
            if not self.schemas(Place(each, reader.home), writer, f"{path}/anyOf/{index}", depth + 1):
                return []
        message = f"no branch of the reader's anyOf accepts {described(writer.node)} of the writer"
        return [Incompatibility("COMBINED_TYPE_CHANGED", f"{path}/anyOf", message)]

    def _one_of(
        self, reader: Place, writer: Place, path: str, depth: int, excluded: list[Any]
    ) -> list[Incompatibility]:
        """One branch accepts the writer's values, and no other does: `excluded` are schemas that they do not have."""
        assert isinstance(reader.node, dict)
        branches = reader.node["oneOf"]
        for index, each in enumerate(branches):
            if self.schemas(Place(each, reader.home), writer, f"{path}/oneOf/{index}", depth + 1):
                continue
            others = [other for position, other in enumerate(branches) if position != index]
            if all(
                any(_same(other, known, reader.home, writer.home) for known in excluded)
                or are_disjoint((self._reader, other, reader.home), (self._writer, writer.node, writer.home))
                for other in others
            ):
                return []
            message = (
                f"{described(writer.node)} of the writer may fit more than one branch of the reader's oneOf"
            )
            return [Incompatibility("COMBINED_TYPE_CHANGED", f"{path}/oneOf", message)]
        message = f"no branch of the reader's oneOf accepts {described(writer.node)} of the writer"
        return [Incompatibility("COMBINED_TYPE_CHANGED", f"{path}/oneOf", message)]

    def _negation(self, reader: Place, writer: Place, path: str, depth: int) -> list[Incompatibility]:
        assert isinstance(reader.node, dict)
        refused = reader.node["not"]
        if are_disjoint((self._reader, refused, reader.home), (self._writer, writer.node, writer.home)):
            return []
        given = writer.node if isinstance(writer.node, dict) else {}
        if "not" in given and _same(refused, given["not"], reader.home, writer.home):
            return []
        message = "the reader refuses by not what the writer may have written"
        return [Incompatibility("NOT_TYPE_NARROWED", f"{path}/not", message)]

    def _if_type(
        self, name: str, writer: Place, check: Callable[[Place], list[Incompatibility]]
    ) -> list[Incompatibility]:
        """A demand on objects, or on arrays, is met by a writer that has none."""
        if name not in types_of(self._writer, writer.node, writer.home):
            return []
        values = values_of(writer.node)
        return check(
            Place(writer.node if isinstance(writer.node, dict) and values is None else {}, writer.home)
        )

    def _object(
        self, demand: str, reader: Place, writer: Place, path: str, depth: int
    ) -> list[Incompatibility]:
        assert isinstance(reader.node, dict)
        assert isinstance(writer.node, dict)
        if demand == "required":
            return _required(reader.node, writer.node, path)
        if demand == "propertyNames":
            names = Place(reader.node["propertyNames"], reader.home)
            given = Place(writer.node.get("propertyNames", True), writer.home)
            return self.schemas(names, given, f"{path}/propertyNames", depth + 1)
        return [
            why
            for where, wanted, given in _properties(reader.node, writer.node)
            for why in self.schemas(
                Place(wanted, reader.home), Place(given, writer.home), f"{path}/{where}", depth + 1
            )
        ]

    def _items(self, reader: Place, writer: Place, path: str, depth: int) -> list[Incompatibility]:
        assert isinstance(reader.node, dict)
        assert isinstance(writer.node, dict)
        (wanted, rest), (given, given_rest) = _item_schemas(reader.node), _item_schemas(writer.node)
        pairs = [
            (
                wanted[index] if index < len(wanted) else rest,
                given[index] if index < len(given) else given_rest,
            )
            for index in range(max(len(wanted), len(given)))
        ]
        return [
            why
            for index, (want, have) in enumerate([*pairs, (rest, given_rest)])
            for why in self.schemas(
                Place(want, reader.home), Place(have, writer.home), f"{path}/items/{index}", depth + 1
            )
        ]


def _required(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Incompatibility]:
    demanded, given = reader["required"], writer.get("required")
    if not isinstance(demanded, list):
        return []  # draft 3, where it says nothing about objects
    present = given if isinstance(given, list) else []
    return [
        Incompatibility(
            "REQUIRED_ATTRIBUTE_ADDED",
            f"{path}/required",
            f"the reader demands the property '{each}', which the writer may leave out",
        )
        for each in demanded
        if each not in present
    ]


def _properties(reader: dict[str, Any], writer: dict[str, Any]) -> Iterator[tuple[str, Node, Node]]:
    """For all names that an object of the writer's may have: what the reader wants, and what the writer gives.

    Patterns are not run. A name that the writer does not list may match any of its patterns, or none.
    """
    wanted, given = reader.get("properties", {}), writer.get("properties", {})
    patterns, given_patterns = reader.get("patternProperties", {}), writer.get("patternProperties", {})
    rest, given_rest = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
    unlisted = [*given_patterns.items(), ("", given_rest)]
    for name, schema in wanted.items():
        for have in [given[name]] if name in given else [each for _, each in unlisted]:
            yield f"properties/{name}", schema, have
    for pattern, schema in patterns.items():
        if pattern in given_patterns:
            yield f"patternProperties/{pattern}", schema, given_patterns[pattern]
            continue
        for have in (*given.values(), *(each for _, each in unlisted)):
            yield f"patternProperties/{pattern}", schema, have
    for name, have in given.items():
        if name not in wanted:
            yield f"additionalProperties/{name}", rest, have
    for pattern, have in unlisted:
        if pattern not in patterns or not pattern:
            yield "additionalProperties", rest, have


def _item_schemas(node: dict[str, Any]) -> tuple[list[Node], Node]:
    """The schemas of the first items, and of all others; drafts before 2020 write them as `items` with a list."""
    items = node.get("items", True)
    if isinstance(items, list):
        return items, node.get("additionalItems", True)
    return node.get("prefixItems", []), items


def _same(one: Any, other: Any, home: Node, other_home: Node) -> bool:
    """Whether two parts say the same: the same text, and behind its references the same definitions."""
    if not equal(one, other):
        return False
    if '"$ref"' not in to_json(one):
        return True
    return all(
        equal(_definitions(home, each), _definitions(other_home, each)) for each in ("$defs", "definitions")
    ) and not _leads_out(one)


def _definitions(root: Node, name: str) -> Any:
    """The definitions of a root; those that lead elsewhere are not even the same as themselves."""
    found = root.get(name) if isinstance(root, dict) else None
    return float("nan") if _leads_out(found) else found


def _leads_out(value: Any) -> bool:
    text = to_json(value)
    inside = text.count('"$ref":"#/$defs/') + text.count('"$ref":"#/definitions/')
    return text.count('"$ref":') != inside


_NOTES: Final = frozenset(
    {"title", "description", "examples", "$comment", "default", "deprecated", "$id", "$schema"}
)


def _without_notes(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in _NOTES}
