"""What is wrong with a .proto file that can be read: types that do not exist, numbers and names that are there twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.schemas.protobuf.type_table import TypeTable, all_types, qualified
from ottla.schemas.protobuf.types import (
    MOST_NUMBER,
    SCALARS,
    Enumeration,
    Field,
    File,
    Message,
    Reserved,
    Span,
)
from ottla.schemas.schema import InvalidSchemaError, shown

_OWN_NUMBERS: Final = range(19_000, 20_000)  # Protobuf keeps these for itself
_KEYS: Final = SCALARS - {"float", "double", "bytes"}


def check_file(file: File, table: TypeTable) -> None:
    """Raises InvalidSchemaError for the first thing that is wrong."""
    seen: set[str] = set()
    for name, part in all_types(file):
        _check_new(name, seen, f"the type {name}")
        if isinstance(part, Message):
            _check_message(part, qualified(file.package, name), table, is_proto3=file.is_proto3)
        else:
            _check_enum(part, name, is_proto3=file.is_proto3)
    for extend in file.extends:
        _check_extended(extend.name, file.package, table)
        for each in extend.fields:
            _check_type(each, file.package, table, "an extension")
    for service in file.services:
        for method in service.methods:
            for kind in (method.request, method.response):
                found = table.definition(kind, file.package)
                if found is None or not isinstance(found.part, Message):
                    raise InvalidSchemaError(
                        f"{service.name}.{method.name}: there is no message {shown(kind)}"
                    )


def _check_message(message: Message, scope: str, table: TypeTable, *, is_proto3: bool) -> None:
    names: set[str] = set()
    numbers: set[str] = set()
    for one_of in message.one_ofs:
        _check_new(one_of.name, names, f"{scope}: the name {one_of.name}")
        if not one_of.fields:
            raise InvalidSchemaError(f"{scope}.{one_of.name}: a oneof must have fields")
    reserved_names, spans = _reserved(message.reserved)
    for each in message.all_fields():
        where = f"{scope}.{each.name}"
        _check_new(each.name, names, f"{scope}: the name {each.name}")
        _check_new(str(each.number), numbers, f"{scope}: the number {each.number}")
        _check_number(each, where)
        if each.name in reserved_names or any(span.first <= each.number <= span.last for span in spans):
            raise InvalidSchemaError(f"{where}: the name or the number {each.number} is reserved")
        if is_proto3 and each.label == "required":
            raise InvalidSchemaError(f"{where}: there are no required fields in proto3")
        if is_proto3 and each.default is not None:
            raise InvalidSchemaError(f"{where}: there are no defaults in proto3")
        _check_type(each, scope, table, where)
    if not is_proto3:
        _check_labels(message, scope)
    for extend in message.extends:
        _check_extended(extend.name, scope, table)
        for each in extend.fields:
            _check_type(each, scope, table, f"{scope}.{each.name}")


def _check_labels(message: Message, scope: str) -> None:
    for each in message.fields:
        if each.label is None and each.map_types is None:
            raise InvalidSchemaError(
                f"{scope}.{each.name}: a field of proto2 must be optional, required or repeated: add the word, or"
                ' syntax = "proto3"'
            )


def _check_number(each: Field, where: str) -> None:
    if not 0 < each.number <= MOST_NUMBER or each.number in _OWN_NUMBERS:
        raise InvalidSchemaError(
            f"{where}: {each.number} cannot be the number of a field: from 1 to {MOST_NUMBER}, and not 19000 to 19999"
        )


def _check_type(each: Field, scope: str, table: TypeTable, where: str) -> None:
    kinds = each.map_types or (each.type,)
    if each.map_types is not None and kinds[0] not in _KEYS:
        raise InvalidSchemaError(f"{where}: {shown(kinds[0])} cannot be the type of a map's keys")
    if each.map_types is not None and each.label is not None:
        raise InvalidSchemaError(f"{where}: a map cannot be {each.label}")
    kind = kinds[-1]
    if kind not in SCALARS and table.definition(kind, scope) is None:
        raise InvalidSchemaError(f"{where}: there is no type {shown(kind)}: define it, or import its file")


def _check_extended(name: str, scope: str, table: TypeTable) -> None:
    found = table.definition(name, scope)
    if found is None or not isinstance(found.part, Message):
        raise InvalidSchemaError(f"there is no message {shown(name)} to extend: import its file")


def _check_enum(enum: Enumeration, name: str, *, is_proto3: bool) -> None:
    if not enum.constants:
        raise InvalidSchemaError(f"the enum {name} must have a constant")
    if is_proto3 and enum.constants[0].number != 0:
        raise InvalidSchemaError(f"the enum {name}: the first constant must be 0 in proto3")
    has_aliases = any(each.name == "allow_alias" for each in enum.options)
    names: set[str] = set()
    numbers: set[str] = set()
    reserved_names, spans = _reserved(enum.reserved)
    for each in enum.constants:
        _check_new(each.name, names, f"the enum {name}: the constant {each.name}")
        if not has_aliases:
            _check_new(str(each.number), numbers, f"the enum {name}: the number {each.number}")
        if not -(2**31) <= each.number < 2**31:
            raise InvalidSchemaError(f"the enum {name}: {each.number} has more than 32 bits")
        if each.name in reserved_names or any(span.first <= each.number <= span.last for span in spans):
            raise InvalidSchemaError(f"the enum {name}: {each.name} = {each.number} is reserved")


def _reserved(groups: Iterable[Reserved]) -> tuple[set[str], list[Span]]:
    values = [each for group in groups for each in group]
    return {each for each in values if isinstance(each, str)}, [
        each for each in values if isinstance(each, Span)
    ]


def _check_new(name: str, seen: set[str], what: str) -> None:
    if name in seen:
        raise InvalidSchemaError(f"{what} is there twice")
    seen.add(name)
