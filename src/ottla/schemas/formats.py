"""The table of formats: how a text of each type is read and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.schemas.avro.canonical import canonical_text
from ottla.schemas.avro.parser import parse_avro
from ottla.schemas.avro.resolution import unreadable as unreadable_avro
from ottla.schemas.json_schema.inclusion import unaccepted
from ottla.schemas.json_schema.model import canonical_text as canonical_json
from ottla.schemas.json_schema.model import parse_json_schema
from ottla.schemas.protobuf.canonical import canonical_text as canonical_protobuf
from ottla.schemas.protobuf.canonical import without_extensions
from ottla.schemas.protobuf.descriptor_writer import serialized
from ottla.schemas.protobuf.differences import unreadable as unreadable_protobuf
from ottla.schemas.protobuf.model import parse_protobuf
from ottla.schemas.schema import (
    AVRO,
    JSON,
    PROTOBUF,
    Imported,
    Incompatibility,
    InvalidSchemaError,
    checked_size,
)


@dataclass(frozen=True, slots=True)
class Format:
    """One type of schema. `parse` makes a model of a text and the texts it refers to, `canonical` writes it in the
    one form that is kept (`is_normal`: with what has no order sorted), `unreadable` compares a reader's model with a
    writer's. `forms` are other texts of a schema, which readers may ask for by name.
    """

    parse: Callable[[str, Sequence[Imported]], Any]
    canonical: Callable[[Any, bool], str]
    unreadable: Callable[[Any, Any], list[Incompatibility]]
    forms: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)


FORMATS: Final = {
    AVRO: Format(parse_avro, canonical_text, unreadable_avro),
    JSON: Format(parse_json_schema, canonical_json, unaccepted),
    PROTOBUF: Format(
        parse_protobuf,
        canonical_protobuf,
        unreadable_protobuf,
        {"serialized": serialized, "ignore_extensions": without_extensions},
    ),
}


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema that was read."""

    type: str
    model: Any

    def canonical(self, is_normal: bool = False) -> str:
        """The text in the form that a registry keeps."""
        return FORMATS[self.type].canonical(self.model, is_normal)

    def form(self, name: str) -> str:
        """The text in another form, such as `serialized`. Raises InvalidSchemaError."""
        made = FORMATS[self.type].forms.get(name)
        if made is None:
            served = ", ".join(FORMATS[self.type].forms) or "none"
            raise InvalidSchemaError(f"there is no format {name[:40]!r} for {self.type}: served are {served}")
        return made(self.model)

    def reading(self, written: ParsedSchema) -> list[Incompatibility]:
        """Why a reader with this schema cannot read what was written with another one of the same type."""
        return FORMATS[self.type].unreadable(self.model, written.model)


def parse_schema(schema_type: str, text: str, imports: Sequence[Imported] = ()) -> ParsedSchema:
    """Read a schema; `imports` are all that it refers to, each before those that need it.

    Raises InvalidSchemaError.
    """
    chosen = FORMATS.get(schema_type)
    if chosen is None:
        served = ", ".join(FORMATS)
        raise InvalidSchemaError(f"{schema_type[:40]!r} is no type of schema: schemas can be {served}")
    return ParsedSchema(schema_type, chosen.parse(checked_size(text), imports))
