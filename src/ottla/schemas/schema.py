"""A schema as a registry keeps it: a text, its type, and references to other schemas."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"

# A record of the topic that keeps schemas has one schema, and a broker takes records of a megabyte.
MOST_CHARACTERS: Final = 900_000


class InvalidSchemaError(ValueError):
    """A text that is no schema of its type; the message says what is wrong and where."""


class SchemaDataError(ValueError):
    """A value that does not fit its schema, or data that is not in a form of the registry's."""


class Reference(NamedTuple):
    """A schema that another one needs: the name it is used by there, and the version of a subject it is."""

    name: str
    subject: str
    version: int


class Imported(NamedTuple):
    """The text of a referenced schema, and the name it is used by."""

    name: str
    text: str


class Incompatibility(NamedTuple):
    """A reason why a reader cannot read what a writer wrote. `kind` is a word for programs, as Avro has them;
    `path` is the place in the reader's schema.
    """

    kind: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.message} (at {self.path})'}}"


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema with its type and references: what two registrations must have in common to be the same."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()

    @property
    def digest(self) -> bytes:
        """Confluent's MD5 of the text and the references."""
        hashed = hashlib.md5(self.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
        for each in self.references:
            hashed.update(
                each.name.encode() + each.subject.encode() + each.version.to_bytes(4, "big", signed=True)
            )
        return hashed.digest()

    @property
    def guid(self) -> str:
        """The id that a schema has in every registry: the digest, written as a UUID."""
        return guid_text(self.digest)


def guid_text(digest: bytes) -> str:
    """Sixteen bytes as a UUID is written."""
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def checked_size(text: str) -> str:
    """The text itself. Raises InvalidSchemaError if it is too long to be kept."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidSchemaError(f"the schema has {len(text)} characters, and {MOST_CHARACTERS} are the most")
    return text


def shown(value: object, most: int = 80) -> str:
    """A value for a message, short enough to be read."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(values: Sequence[str], most: int = 5) -> str:
    """Names for a message."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(values[:most]) + more
