"""A schema as a FileDescriptorProto, as protoc would make it; entries of maps come last among the nested messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

from ottla.schemas.protobuf.descriptor_reader import FILE
from ottla.schemas.protobuf.model import ProtobufSchema
from ottla.schemas.protobuf.normal_options import plain_number
from ottla.schemas.protobuf.type_table import TypeTable, qualified
from ottla.schemas.protobuf.types import (
    MOST_NUMBER,
    SCALARS,
    Enumeration,
    Extend,
    Field,
    File,
    Literal,
    Message,
    Option,
    Reserved,
    Service,
    Span,
    Value,
)
from ottla.schemas.protobuf.well_known import DESCRIPTOR, well_known_file
from ottla.schemas.protobuf.wire_values import WireCodec

_TRUE: Final = Literal("true")
_Values = dict[str, Value]


def descriptor_of(schema: ProtobufSchema, name: str = "default") -> bytes:
    """The serialized descriptor of the schema's own file, under a name."""
    return file_descriptor(schema.file, schema.table, name)


def serialized(schema: ProtobufSchema) -> str:
    """The descriptor in base64: the format `serialized` of a registry."""
    return b64encode(descriptor_of(schema)).decode()


def file_descriptor(file: File, table: TypeTable, name: str) -> bytes:
    """The serialized descriptor of a file whose types are in a table."""
    known = table
    if FILE not in table.types:
        known = TypeTable(dict(table.types), dict(table.extensions))
        known.add(DESCRIPTOR, well_known_file(DESCRIPTOR))
    return WireCodec(known).encode(FILE, _Writer(known, file).file(name))


class _Writer:
    def __init__(self, table: TypeTable, file: File) -> None:
        self._table = table
        self._file = file

    def file(self, name: str) -> _Values:
        file = self._file
        imports = [*file.imports, *file.public_imports]
        public = range(len(file.imports), len(imports))
        made: _Values = {"name": name, "dependency": list(imports)}
        if file.package:
            made["package"] = file.package
        if file.is_proto3:
            made["syntax"] = "proto3"
        made["public_dependency"] = [Literal(str(each)) for each in public]
        made["message_type"] = [self._message(each, file.package) for each in file.messages]
        made["enum_type"] = [self._enum(each, file.package) for each in file.enums]
        made["service"] = [self._service(each) for each in file.services]
        made["extension"] = self._extends(file.extends, file.package)
        return made | self._options(file.options, file.package)

    def _message(self, message: Message, outer: str) -> _Values:
        scope = qualified(outer, message.name)
        one_ofs: list[Value] = [
            {"name": each.name, **self._options(each.options, scope)} for each in message.one_ofs
        ]
        numbered: list[tuple[Field, int | None]] = [(each, None) for each in message.fields]
        for order, one_of in enumerate(message.one_ofs):
            numbered += [(each, order) for each in one_of.fields]
        fields: list[Value] = []
        entries: list[Value] = []
        for field, place in self._in_place(message, numbered):
            index: int | None = place
            made = self._field(field, scope)
            if field.map_types is not None:
                made |= self._as_map(field, scope)
                entries.append(self._entry(field, scope))
            if index is None and field.label == "optional" and self._file.is_proto3:
                index = len(one_ofs)
                one_ofs.append({"name": f"_{field.name}"})
                made["proto3_optional"] = _TRUE
            if index is not None:
                made["oneof_index"] = Literal(str(index))
            fields.append(made)
        ranges: list[Value] = [
            _range(span, is_end_included=False) | self._options(each.options, scope)
            for each in message.extensions
            for span in each.spans
        ]
        return {
            "name": message.name,
            "field": fields,
            "nested_type": [*(self._message(each, scope) for each in message.messages), *entries],
            "enum_type": [self._enum(each, scope) for each in message.enums],
            "extension_range": ranges,
            "extension": self._extends(message.extends, scope),
            "oneof_decl": one_ofs,
            **_reserved(message.reserved, is_end_included=False),
            **self._options(message.options, scope),
        }

    def _in_place(
        self, message: Message, numbered: list[tuple[Field, int | None]]
    ) -> Iterable[tuple[Field, int | None]]:
        """Fields in the order of their numbers, which the place of a synthetic oneof does not depend on."""
        return sorted(numbered, key=lambda each: each[0].number) if message.one_ofs else numbered

    def _field(self, field: Field, scope: str, extended: str | None = None) -> _Values:
        made: _Values = {"name": field.name, "number": Literal(str(field.number))}
        made["label"] = Literal(f"LABEL_{(field.label or 'optional').upper()}")
        made |= self._type(field.type, scope)
        if extended is not None:
            made["extendee"] = self._full(extended, scope)
        if field.default is not None:
            is_number = field.type in SCALARS - {"string", "bytes", "bool"}
            made["default_value"] = plain_number(field.default) if is_number else field.default
        if field.json_name is not None:
            made["json_name"] = field.json_name
        return made | self._options(field.options, scope)

    def _type(self, name: str, scope: str) -> _Values:
        if name in SCALARS:
            return {"type": Literal(f"TYPE_{name.upper()}")}
        found = self._table.definition(name, scope)
        if found is None:
            return {}
        kind = "TYPE_MESSAGE" if isinstance(found.part, Message) else "TYPE_ENUM"
        return {"type": Literal(kind), "type_name": f".{found.full_name}"}

    def _full(self, name: str, scope: str) -> str:
        return f".{self._table.resolve(name, scope) or name.lstrip('.')}"

    def _as_map(self, field: Field, scope: str) -> _Values:
        name = qualified(scope, _entry_name(field.name))
        return {"label": Literal("LABEL_REPEATED"), "type": Literal("TYPE_MESSAGE"), "type_name": f".{name}"}

    def _entry(self, field: Field, scope: str) -> _Values:
        assert field.map_types is not None
        key, value = (
            self._field(Field(name, kind, number), scope)
            for name, kind, number in zip(("key", "value"), field.map_types, (1, 2), strict=True)
        )
        return {"name": _entry_name(field.name), "field": [key, value], "options": {"map_entry": _TRUE}}

    def _enum(self, enum: Enumeration, outer: str) -> _Values:
        scope = qualified(outer, enum.name)
        constants: list[Value] = [
            {"name": each.name, "number": Literal(str(each.number)), **self._options(each.options, scope)}
            for each in enum.constants
        ]
        return {
            "name": enum.name,
            "value": constants,
            **_reserved(enum.reserved, is_end_included=True),
            **self._options(enum.options, scope),
        }

    def _service(self, service: Service) -> _Values:
        scope = self._file.package
        methods: list[Value] = []
        for each in service.methods:
            made: _Values = {"name": each.name}
            made["input_type"], made["output_type"] = (
                self._full(each.request, scope),
                self._full(each.response, scope),
            )
            if each.streams_requests:
                made["client_streaming"] = _TRUE
            if each.streams_responses:
                made["server_streaming"] = _TRUE
            methods.append(made | self._options(each.options, scope))
        return {"name": service.name, "method": methods, **self._options(service.options, scope)}

    def _extends(self, extends: Iterable[Extend], scope: str) -> list[Value]:
        return [self._field(field, scope, each.name) for each in extends for field in each.fields]

    def _options(self, options: tuple[Option, ...], scope: str) -> _Values:
        made: _Values = {}
        for each in options:
            name = each.name
            if each.is_custom:
                name = f"[{self._table.resolve_extension(each.name, scope) or each.name}]"
            value = each.value
            for deep in reversed(each.deep):
                value = {deep: value}
            made[name] = _joined(made[name], value) if name in made else value
        return {"options": made} if made else {}


def _joined(first: Value, second: Value) -> Value:
    """Two options of one name: fields of one message, or values of a repeated one."""
    if isinstance(first, dict) and isinstance(second, dict) and not first.keys() & second.keys():
        return first | second
    return [
        *(first if isinstance(first, list) else [first]),
        *(second if isinstance(second, list) else [second]),
    ]


def _reserved(groups: Iterable[Reserved], *, is_end_included: bool) -> _Values:
    values = [each for group in groups for each in group]
    return {
        "reserved_range": [
            _range(each, is_end_included=is_end_included) for each in values if isinstance(each, Span)
        ],
        "reserved_name": [each for each in values if isinstance(each, str)],
    }


def _range(span: Span, *, is_end_included: bool) -> _Values:
    end = span.last if is_end_included else min(span.last, MOST_NUMBER) + 1
    return {"start": Literal(str(span.first)), "end": Literal(str(end))}


def _entry_name(name: str) -> str:
    """protoc's name of a map's entries: `by_name` has ByNameEntry."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
