"""A Protobuf schema with all that it imports, checked: what protoc would refuse is refused here."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.schemas.protobuf.checks import check_file
from ottla.schemas.protobuf.descriptor_reader import file_of_descriptor
from ottla.schemas.protobuf.parser import parse_file
from ottla.schemas.protobuf.type_table import TypeTable
from ottla.schemas.protobuf.types import File, Message
from ottla.schemas.protobuf.well_known import TEXTS, well_known_file
from ottla.schemas.schema import Imported, InvalidSchemaError, listed, shown

OWN: Final = ""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A file, the files behind its imports by their names, and the types of all of them."""

    file: File
    imported: Mapping[str, File]
    table: TypeTable

    def message_at(self, indexes: Sequence[int]) -> tuple[str, Message] | None:
        """The full name and the message at a place, such as [1, 0]: the first one in the second one."""
        messages, names, found = self.file.messages, [self.file.package] if self.file.package else [], None
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            found = messages[index]
            names.append(found.name)
            messages = found.messages
        return None if found is None else (".".join(names), found)

    def indexes_of(self, full_name: str) -> list[int] | None:
        """The place of a message."""
        prefix = f"{self.file.package}." if self.file.package else ""
        if not full_name.startswith(prefix):
            return None
        messages, places = self.file.messages, []
        for name in full_name[len(prefix) :].split("."):
            place = next((index for index, each in enumerate(messages) if each.name == name), None)
            if place is None:
                return None
            places.append(place)
            messages = messages[place].messages
        return places


def is_descriptor(text: str) -> bool:
    """Whether a schema is sent as a descriptor in base64, and not as a .proto text."""
    return _BASE64.fullmatch(text) is not None


def parse_protobuf(text: str, imports: Sequence[Imported] = ()) -> ProtobufSchema:
    """Read a schema: .proto text, or a FileDescriptorProto in base64. Raises InvalidSchemaError."""
    if not text.strip():
        raise InvalidSchemaError("the schema is empty")
    imported: dict[str, File] = {}
    for each in imports:  # each comes after those that it needs, whose extensions may be in its options
        imported[each.name] = _imported_file(each, imported)
    file = _read(text, imported)
    _add_well_known(file, imported)
    missing = [name for name in (*file.imports, *file.public_imports) if name not in imported]
    if missing:
        raise InvalidSchemaError(
            f"the import {shown(listed(missing))} leads nowhere: name it in the references of the schema"
        )
    table = _table(imported)
    table.add(OWN, file)
    check_file(file, table)
    return ProtobufSchema(file, imported, table)


def _imported_file(each: Imported, imported: Mapping[str, File]) -> File:
    try:
        return _read(each.text, imported)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"the referenced schema {shown(each.name)}: {error}") from error


def _read(text: str, imported: Mapping[str, File]) -> File:
    if not is_descriptor(text):
        return parse_file(text)
    try:
        data = b64decode(text, validate=False)
    except ValueError as error:
        raise InvalidSchemaError(f"the schema is neither a .proto text nor base64: {error}") from error
    return file_of_descriptor(data, lambda names: _table_of_imports(names, imported))


def _table_of_imports(names: Sequence[str], imported: Mapping[str, File]) -> TypeTable:
    """What can be in the options of a descriptor: extensions of the files that it imports."""
    files = dict(imported)
    _add_well_known(File(imports=("google/protobuf/descriptor.proto", *names)), files)
    return _table(files)


def _table(files: Mapping[str, File]) -> TypeTable:
    table = TypeTable()
    for name, file in files.items():
        table.add(name, file)
    return table


def _add_well_known(file: File, files: dict[str, File]) -> None:
    """The files that every schema may import, and those behind them."""
    waiting = [*file.imports, *file.public_imports]
    for each in list(files.values()):
        waiting += (*each.imports, *each.public_imports)
    while waiting:
        name = waiting.pop()
        if name not in files and name in TEXTS:
            files[name] = well_known_file(name)
            waiting += (*files[name].imports, *files[name].public_imports)
