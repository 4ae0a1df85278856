"""Parts to the text that Confluent's registry keeps: no comments, two spaces, a fixed order of the kinds of parts.

Normal texts have, besides, every type by its full name, fields in the order of their numbers, options by name, and
maps as maps. Messages keep their order always: data names its message by the place in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ottla.schemas.protobuf.model import ProtobufSchema
from ottla.schemas.protobuf.normal_options import normal_options
from ottla.schemas.protobuf.option_text import indented, option_text, options_text
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
    Method,
    OneOf,
    Option,
    Reserved,
    Service,
    Span,
)

_QUOTED: Final = ("string", "bytes")


def canonical_text(schema: ProtobufSchema, is_normal: bool = False) -> str:
    """The text of a schema in the form that is kept."""
    return _Writer(schema.table if is_normal else None).file(schema.file)


def text_of_file(file: File) -> str:
    """The text of a file alone."""
    return _Writer(None).file(file)


def without_extensions(schema: ProtobufSchema) -> str:
    """The text without extensions and custom options: Confluent's format `ignore_extensions`."""
    return _Writer(None, ignores_extensions=True).file(schema.file)


class _Writer:
    """Writes parts; with a table, in the normal form."""

    def __init__(self, table: TypeTable | None, *, ignores_extensions: bool = False) -> None:
        self._table = table
        self._ignores_extensions = ignores_extensions

    def file(self, file: File) -> str:
        syntax = file.syntax if self._table is None or file.is_proto3 else None
        text = f'syntax = "{syntax}";\n' if syntax else ""
        text += f"package {file.package};\n" if file.package else ""
        imports = [f'import "{each}";\n' for each in self._names(file.imports)]
        imports += [f'import public "{each}";\n' for each in self._names(file.public_imports)]
        scope = file.package
        messages = [each for each in file.messages if self._table is None or not each.is_map_entry]
        types = [self.message(each, scope) for each in messages]
        types += [self.enum(each, qualified(scope, each.name)) for each in file.enums]
        extends = [] if self._ignores_extensions else self._extends(file.extends, scope)
        services = [self.service(each, scope) for each in file.services]
        options = self._option_lines(file.options, scope)
        return text + "".join(
            "\n" + "".join(lines) for lines in (imports, options, types, extends, services) if lines
        )

    def message(self, message: Message, outer: str) -> str:
        scope = qualified(outer, message.name)
        fields = self._by_number(message.fields)
        messages = [each for each in message.messages if self._table is None or not each.is_map_entry]
        nested = [self.message(each, scope) for each in messages]
        nested += [self.enum(each, qualified(scope, each.name)) for each in message.enums]
        extensions = [] if self._ignores_extensions else self._extensions(message, scope)
        extends = [] if self._ignores_extensions else self._extends(message.extends, scope)
        sections = (
            self._reserved(message.reserved),
            self._option_lines(message.options, scope),
            [self.field(each, scope) for each in fields],
            [self.one_of(each, scope) for each in self._one_ofs(message.one_ofs)],
            extensions,
            extends,
            nested,
        )
        return f"message {message.name} {_braced(sections)}"

    def field(self, field: Field, scope: str) -> str:
        label, kind = field.label, field.type
        if self._table is not None:
            label, kind = self._normal_type(field, scope, self._table)
        options = field.options
        if field.default is not None:
            is_quoted = kind in _QUOTED
            options = (*options, Option("default", field.default if is_quoted else Literal(field.default)))
        if field.json_name is not None:
            options = (*options, Option("json_name", field.json_name))
        start = f"{label} " if label else ""
        return f"{start}{kind} {field.name} = {field.number}{options_text(self._options(options, scope))};\n"

    def one_of(self, one_of: OneOf, scope: str) -> str:
        sections = (
            self._option_lines(one_of.options, scope),
            [self.field(each, scope) for each in one_of.fields],
        )
        return f"oneof {one_of.name} {_braced(sections)}"

    def enum(self, enum: Enumeration, scope: str) -> str:
        constants = enum.constants
        if self._table is not None:
            constants = tuple(sorted(constants, key=lambda each: (each.number, each.name)))
        lines = self._reserved(enum.reserved) + self._option_lines(enum.options, scope)
        lines += [
            f"{each.name} = {each.number}{options_text(self._options(each.options, scope))};\n"
            for each in constants
        ]
        return f"enum {enum.name} {_braced((lines,))}"

    def service(self, service: Service, scope: str) -> str:
        sections = (
            self._option_lines(service.options, scope),
            [self._method(each, scope) for each in service.methods],
        )
        return f"service {service.name} {_braced(sections)}"

    def _method(self, method: Method, scope: str) -> str:
        asks = "stream " if method.streams_requests else ""
        answers = "stream " if method.streams_responses else ""
        request, response = self._type(method.request, scope), self._type(method.response, scope)
        text = f"rpc {method.name} ({asks}{request}) returns ({answers}{response})"
        options = self._option_lines(method.options, scope)
        return text + (" {\n" + indented("".join(options)) + "}" if options else "") + ";\n"

    def _extends(self, extends: Sequence[Extend], scope: str) -> list[str]:
        if self._table is not None:
            merged: dict[str, tuple[Field, ...]] = {}
            for each in extends:
                name = self._type(each.name, scope)
                merged[name] = (*merged.get(name, ()), *each.fields)
            extends = [Extend(name, self._by_number(fields)) for name, fields in merged.items()]
        return [
            f"extend {each.name} {_braced(([self.field(added, scope) for added in each.fields],))}"
            for each in extends
        ]

    def _extensions(self, message: Message, scope: str) -> list[str]:
        found = [(each.spans, each.options) for each in message.extensions]
        if self._table is not None:
            apart = [((span,), options) for spans, options in found for span in spans]
            found = [*sorted(apart, key=lambda each: each[0][0].first)]
        return [
            f"extensions {self._spans(spans)}{options_text(self._options(options, scope))};\n"
            for spans, options in found
        ]

    def _reserved(self, reserved: tuple[Reserved, ...]) -> list[str]:
        if self._table is not None:
            reserved = tuple(sorted(((each,) for group in reserved for each in group), key=_reserved_order))
        return [f"reserved {self._spans(group)};\n" for group in reserved]

    def _spans(self, values: Iterable[Span | str]) -> str:
        made = []
        for each in values:
            if isinstance(each, str):
                made.append(f'"{each}"')
            elif not each.is_range or (self._table is not None and each.first == each.last):
                made.append(str(each.first))
            else:
                made.append(f"{each.first} to {'max' if each.last >= MOST_NUMBER else each.last}")
        return ", ".join(made)

    def _option_lines(self, options: tuple[Option, ...], scope: str) -> list[str]:
        return [f"option {option_text(each)};\n" for each in self._options(options, scope)]

    def _options(self, options: tuple[Option, ...], scope: str) -> tuple[Option, ...]:
        if self._ignores_extensions:
            options = tuple(
                each
                for each in options
                if not each.is_custom or each.name.lstrip(".").startswith("confluent.")
            )
        return options if self._table is None else normal_options(options, scope, self._table)

    def _names(self, names: tuple[str, ...]) -> Sequence[str]:
        return names if self._table is None else sorted(set(names))

    def _by_number(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return fields if self._table is None else tuple(sorted(fields, key=lambda each: each.number))

    def _one_ofs(self, one_ofs: tuple[OneOf, ...]) -> Sequence[OneOf]:
        if self._table is None:
            return one_ofs
        ordered = [replace(each, fields=self._by_number(each.fields)) for each in one_ofs if each.fields]
        return sorted(ordered, key=lambda each: each.fields[0].number)

    def _type(self, name: str, scope: str) -> str:
        if self._table is None or name in SCALARS:
            return name
        full = self._table.resolve(name, scope)
        return name if full is None else f".{full}"

    def _normal_type(self, field: Field, scope: str, table: TypeTable) -> tuple[str | None, str]:
        maps = table.map_types(field, scope)
        if maps is None:
            return field.label, self._type(field.type, scope)
        inner = scope if field.map_types else table.resolve(field.type, scope) or scope
        return None, f"map<{maps[0]}, {self._type(maps[1], inner)}>"


def _braced(sections: Iterable[Sequence[str]]) -> str:
    body = "".join("\n" + indented("".join(lines)) for lines in sections if lines)
    return "{" + body + "}\n"


def _reserved_order(group: Reserved) -> tuple[int, str]:
    value = group[0]
    if isinstance(value, str):
        return 2**31 - 1, value
    return value.first, f"{value.first}..{value.last}" if value.is_range else str(value.first)
