from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from ottla.client.serializers import (
    AvroCodec,
    deserialize_json,
    deserialize_text,
    serialize_json,
    serialize_plain,
    serialize_text,
)


def test_text_and_json_come_back() -> None:
    assert deserialize_text(serialize_text("Ottla ✓")) == "Ottla ✓"
    assert serialize_json({"drink": "čaj", "n": [1, None]}) == '{"drink":"čaj","n":[1,null]}'.encode()
    assert deserialize_json(b'{"n":[1,null]}') == {"n": [1, None]}


def test_plain_is_bytes_or_text() -> None:
    assert [serialize_plain(each) for each in (b"a", "ž", bytearray(b"c"))] == [b"a", "ž".encode(), b"c"]
    with pytest.raises(TypeError, match="a dict is neither bytes nor text: give the producer a serializer"):
        serialize_plain({})


def test_avro_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ModuleNotFoundError, match="pip install fastavro"):
        AvroCodec({"type": "string"})


def test_avro_uses_the_users_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(out: Any, schema: Any, value: Any) -> None:
        out.write(f"{schema['type']}:{value}".encode())

    fake: Any = ModuleType("fastavro")
    fake.parse_schema = lambda schema: schema
    fake.schemaless_writer = write
    fake.schemaless_reader = lambda data, schema: data.read().decode().removeprefix(f"{schema['type']}:")
    monkeypatch.setitem(sys.modules, "fastavro", fake)
    codec = AvroCodec('{"type": "string"}')
    assert codec.serialize("tea") == b"string:tea"
    assert codec.deserialize(b"string:tea") == "tea"
