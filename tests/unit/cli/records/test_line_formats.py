from __future__ import annotations

import json

import pytest

from ottla.cli.records.line_formats import FORMATS, line_format, lines
from ottla.client.fetching.plan.record_batch import ConsumerRecord


def record(key: bytes | None, value: bytes | None, **headers: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("t", 1, 5, 1_000, key, value, tuple(headers.items()))


def test_values_and_keys_are_the_bytes_that_were_produced() -> None:
    records = [record(b"k", b"\xff\xfe"), record(None, None), record(b"", b"")]
    assert lines(records, FORMATS["value"]) == b"\xff\xfe\nnull\n\n"
    assert lines(records, FORMATS["key-value"]) == b"k\t\xff\xfe\nnull\tnull\n\t\n"


def test_json_lines_hold_all_that_is_known_of_a_record() -> None:
    assert json.loads(lines([record("schlüssel".encode(), b"v", a=b"1", b=None)], FORMATS["json"])) == {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "timestamp_ms": 1_000,
        "key": "schlüssel",
        "value": "v",
        "headers": [["a", "1"], ["b", None]],
    }


def test_bytes_that_are_no_text_are_told_apart_from_text() -> None:
    (line,) = lines([record(None, b"\xff\x00")], FORMATS["json"]).splitlines()
    assert json.loads(line)["value"] == {"base64": "/wA="}
    assert json.loads(line)["key"] is None


def test_a_header_whose_name_is_no_text_does_not_break_the_line() -> None:
    odd = ConsumerRecord("t", 1, 5, 1_000, None, b"v", (("a\udcff", b"x"),))
    assert json.loads(lines([odd], FORMATS["json"]))["headers"] == [["a\udcff", "x"]]


def test_a_template_has_the_fields_of_a_record() -> None:
    template = line_format(r"{topic}-{partition}@{offset} {timestamp}\t{key}={value} [{headers}]")
    assert template(record(b"k", b"\xff", a=b"1", b=None)) == b"t-1@5 1000\tk=\xff [a=1,b=null]\n"
    assert line_format("value") is FORMATS["value"]


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("values", '"values" is neither value, key-value, json nor a template'),
        ("{size}", 'a record has no "size": it has topic, partition, offset'),
        ("{}", 'a record has no ""'),
    ],
)
def test_a_template_that_cannot_be_is_told(form: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        line_format(form)
