from __future__ import annotations

import json

import pytest

from ottla.cli.records.line_formats import json_line as consumed_json_line
from ottla.cli.records.line_parsers import LineRecord, json_line, key_value_line, value_line
from ottla.client.consumer.consumer import ConsumerRecord


def test_a_line_is_a_value() -> None:
    assert value_line(b"a:b") == LineRecord(b"a:b")
    assert value_line(b"") == LineRecord(b"")


def test_the_first_separator_divides_key_and_value() -> None:
    assert key_value_line(b":")(b"k:v:w") == LineRecord(b"v:w", b"k")
    assert key_value_line(b" -> ")(b"k -> v") == LineRecord(b"v", b"k")
    assert key_value_line(b":")(b":v") == LineRecord(b"v", b"")
    with pytest.raises(ValueError, match="there is no ':' between a key and a value"):
        key_value_line(b":")(b"kv")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"value": "v"}, LineRecord(b"v")),
        ({"value": None, "key": "k"}, LineRecord(None, b"k")),
        ({"value": {"base64": "/w=="}}, LineRecord(b"\xff")),
        ({"value": {"drink": "tea", "for": [4]}}, LineRecord(b'{"drink":"tea","for":[4]}')),
        ({"value": 1.5, "key": 7}, LineRecord(b"1.5", b"7")),
        (
            {"value": "v", "headers": {"a": "b"}, "partition": 3, "timestamp_ms": 9},
            LineRecord(b"v", None, 3, (("a", b"b"),), 9),
        ),
        (
            {"value": "v", "headers": [["a", None], ["a", "c"]]},
            LineRecord(b"v", headers=(("a", None), ("a", b"c"))),
        ),
        ({"topic": "other", "offset": 4, "value": "v"}, LineRecord(b"v")),
    ],
)
def test_json_says_everything_about_a_record(document: object, expected: LineRecord) -> None:
    assert json_line(json.dumps(document).encode()) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "it is not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"vaule": 1}', 'has no field "vaule"'),
        (b'{"partition": -1}', '"partition" is a number from 0 on, not -1'),
        (b'{"timestamp_ms": true}', '"timestamp_ms" is a number'),
        (b'{"headers": 5}', '"headers" is an object, or a list'),
        (b'{"headers": [["a"]]}', '"headers" is an object, or a list'),
        (b'{"value": {"base64": "?"}}', "it is not base64"),
    ],
)
def test_a_line_that_cannot_be_understood_says_why(line: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("[", r"\[")):
        json_line(line)


def test_what_consume_prints_can_be_produced() -> None:
    record = ConsumerRecord("t", 1, 5, 77, b"k", b"\xff\x00", (("h", b"x"), ("n", None)))
    assert json_line(consumed_json_line(record)) == LineRecord(
        b"\xff\x00", b"k", 1, (("h", b"x"), ("n", None)), 77
    )
