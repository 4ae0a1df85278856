"""A schema's GUID is Confluent's, and its size has a limit."""

from __future__ import annotations

import hashlib
import uuid

import pytest

from ottla.schemas.formats import parse_schema
from ottla.schemas.schema import AVRO, MOST_CHARACTERS, InvalidSchemaError, Reference, SchemaText


def test_the_guid_is_the_md5_of_the_text_and_the_references() -> None:
    plain = SchemaText(AVRO, '"string"')
    assert plain.guid == str(uuid.UUID(bytes=hashlib.md5(b'"string"').digest()))
    referring = SchemaText(AVRO, '"string"', (Reference("n", "s", 1),))
    assert referring.guid == str(uuid.UUID(bytes=hashlib.md5(b'"string"ns\0\0\0\x01').digest()))


def test_a_schema_of_a_megabyte_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match=f"{MOST_CHARACTERS} are the most"):
        parse_schema(AVRO, '"' + "x" * 1_000_000 + '"')
