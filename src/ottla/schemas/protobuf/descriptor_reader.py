"""A FileDescriptorProto as parts: how protoc's plugins, and the serializers of most languages, hand schemas on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from ottla.schemas.protobuf.type_table import TypeTable
from ottla.schemas.protobuf.types import (
    Constant,
    Enumeration,
    Extend,
    Extensions,
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
    Value,
)
from ottla.schemas.protobuf.well_known import DESCRIPTOR, well_known_file
from ottla.schemas.protobuf.wire_values import WireCodec
from ottla.schemas.schema import InvalidSchemaError, shown

FILE: Final = "google.protobuf.FileDescriptorProto"
# Confluent's order of the options that Protobuf itself has, where it is not the order of their numbers.
_ORDER: Final = {
    name: place
    for place, name in enumerate(
        [
            "java_package",
            "java_outer_classname",
            "java_multiple_files",
            "java_generate_equals_and_hash",
            "java_string_check_utf8",
            "optimize_for",
            "go_package",
            "cc_generic_services",
            "java_generic_services",
            "py_generic_services",
            "ctype",
            "packed",
            "jstype",
            "no_standard_descriptor_accessor",
            "allow_alias",
            "deprecated",
            "map_entry",
            "debug_redact",
            "retention",
            "targets",
        ]
    )
}
_Values = dict[str, Value]


def file_of_descriptor(data: bytes, extensions: Callable[[Sequence[str]], TypeTable]) -> File:
    """The parts of a serialized descriptor; `extensions` are the types of the files that it imports, for its options.

    Raises InvalidSchemaError.
    """
    try:
        plain = _file(descriptor_codec().decode(FILE, data))
    except RecursionError as error:
        raise InvalidSchemaError("the descriptor is nested too deeply") from error
    table = extensions((*plain.imports, *plain.public_imports))
    table.add("", plain)
    return _file(WireCodec(table).decode(FILE, data))


@lru_cache(maxsize=1)
def descriptor_codec() -> WireCodec:
    """Reads and writes descriptors without custom options."""
    table = TypeTable()
    table.add(DESCRIPTOR, well_known_file(DESCRIPTOR))
    return WireCodec(table)


def _file(value: _Values) -> File:
    syntax = _text(value, "syntax") or None
    if syntax not in (None, "proto2", "proto3"):
        raise InvalidSchemaError(f"the syntax {shown(syntax)} is not served: use proto2 or proto3")
    names = [str(each) for each in _list(value, "dependency")]
    public = {_number(each) for each in _list(value, "public_dependency")}
    is_proto3 = syntax == "proto3"
    return File(
        syntax,
        _text(value, "package"),
        tuple(each for index, each in enumerate(names) if index not in public),
        tuple(each for index, each in enumerate(names) if index in public),
        tuple(_message(each, is_proto3) for each in _maps(value, "message_type")),
        tuple(_enum(each) for each in _maps(value, "enum_type")),
        tuple(_service(each) for each in _maps(value, "service")),
        _extends(_maps(value, "extension"), is_proto3),
        _options(value),
    )


def _message(value: _Values, is_proto3: bool) -> Message:
    fields: list[Field] = []
    groups: list[list[Field]] = [[] for _ in _maps(value, "oneof_decl")]
    for each in _maps(value, "field"):
        index = _number(each["oneof_index"]) if "oneof_index" in each else None
        if index is None or each.get("proto3_optional") == Literal("true"):
            fields.append(_field(each, is_proto3))
        elif index < len(groups):
            groups[index].append(_field(each, is_proto3, is_in_one_of=True))
        else:
            raise InvalidSchemaError(f"the field {shown(each.get('name'))} is in a oneof that is not there")
    one_ofs = tuple(
        OneOf(_text(each, "name"), tuple(group), _options(each))
        for each, group in zip(_maps(value, "oneof_decl"), groups, strict=True)
        if group
    )
    return Message(
        _text(value, "name"),
        tuple(fields),
        one_ofs,
        tuple(_message(each, is_proto3) for each in _maps(value, "nested_type")),
        tuple(_enum(each) for each in _maps(value, "enum_type")),
        _options(value),
        _reserved(value, is_end_included=False),
        tuple(
            Extensions((_span(each, is_end_included=False),), _options(each))
            for each in _maps(value, "extension_range")
        ),
        _extends(_maps(value, "extension"), is_proto3),
    )


def _field(value: _Values, is_proto3: bool, *, is_in_one_of: bool = False) -> Field:
    kind, label = _word(value, "type"), _word(value, "label").removeprefix("LABEL_").lower()
    if kind == "TYPE_GROUP":
        raise InvalidSchemaError(f"the field {shown(value.get('name'))} is a group: groups are not served")
    is_plain = is_proto3 and value.get("proto3_optional") != Literal("true") and label != "repeated"
    return Field(
        _text(value, "name"),
        _text(value, "type_name") or kind.removeprefix("TYPE_").lower(),
        _number(value.get("number", Literal("0"))),
        None if is_in_one_of or is_plain else label or "optional",
        None if is_proto3 or "default_value" not in value else _text(value, "default_value"),
        _text(value, "json_name") if "json_name" in value else None,
        _options(value),
    )


def _enum(value: _Values) -> Enumeration:
    constants = tuple(
        Constant(_text(each, "name"), _number(each.get("number", Literal("0"))), _options(each))
        for each in _maps(value, "value")
    )
    return Enumeration(
        _text(value, "name"), constants, _options(value), _reserved(value, is_end_included=True)
    )


def _service(value: _Values) -> Service:
    methods = tuple(
        Method(
            _text(each, "name"),
            _text(each, "input_type"),
            _text(each, "output_type"),
            each.get("client_streaming") == Literal("true"),
            each.get("server_streaming") == Literal("true"),
            _options(each),
        )
        for each in _maps(value, "method")
    )
    return Service(_text(value, "name"), methods, _options(value))


def _extends(values: Iterable[_Values], is_proto3: bool) -> tuple[Extend, ...]:
    found: dict[str, tuple[Field, ...]] = {}
    for each in values:
        name = _text(each, "extendee")
        found[name] = (*found.get(name, ()), _field(each, is_proto3))
    return tuple(Extend(name, fields) for name, fields in found.items())


def _reserved(value: _Values, *, is_end_included: bool) -> tuple[Reserved, ...]:
    spans = [(_span(each, is_end_included=is_end_included),) for each in _maps(value, "reserved_range")]
    return (*spans, *((str(each),) for each in _list(value, "reserved_name")))


def _span(value: _Values, *, is_end_included: bool) -> Span:
    first, end = _number(value.get("start", Literal("0"))), _number(value.get("end", Literal("0")))
    last = end if is_end_included else end - 1
    return Span(first, last, is_range=last != first)


def _options(value: _Values) -> tuple[Option, ...]:
    given = value.get("options")
    made: list[Option] = []
    for name, each in given.items() if isinstance(given, dict) else ():
        if name == "uninterpreted_option":
            continue
        is_custom = name.startswith("[")
        values = each if isinstance(each, list) else [each]
        made += [Option(name.strip("[]"), one, is_custom) for one in values]
    return tuple(sorted(made, key=lambda each: (each.is_custom, _ORDER.get(each.name, len(_ORDER)))))


def _text(value: _Values, name: str) -> str:
    return str(value.get(name, ""))


def _word(value: _Values, name: str) -> str:
    found = value.get(name)
    return found.text if isinstance(found, Literal) else ""


def _number(value: Value) -> int:
    assert isinstance(value, Literal)
    return int(value.text)


def _list(value: _Values, name: str) -> list[Value]:
    found = value.get(name, [])
    assert isinstance(found, list)
    return found


def _maps(value: _Values, name: str) -> list[_Values]:
    return [each for each in _list(value, name) if isinstance(each, dict)]
