"""Serializers of keys and values: bytes, strings, JSON, Avro, and the user's own (PRO-5)."""

from __future__ import annotations

import sys

import pytest

from ottla.client.producer.serializers import (
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


def test_avro_comes_back_by_its_schema() -> None:
    fields = [{"name": "drink", "type": "string"}, {"name": "cups", "type": "int"}]
    codec = AvroCodec({"type": "record", "name": "Order", "fields": fields})
    written = codec.serialize({"drink": "tea", "cups": 3})
    assert written == b"\x06tea\x06"  # no header: lengths and numbers are zig-zag varints
    assert codec.deserialize(written) == {"drink": "tea", "cups": 3}
    assert AvroCodec('{"type": "string"}').serialize("tea") == b"\x06tea"
