"""Any record as JSON, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.records.machine.described import described, header_pairs, part_bytes, shown_part

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=10,
)


@given(st.none() | st.binary())
def test_bytes_come_back_unless_they_are_json(data: bytes | None) -> None:
    value, encoding = shown_part(data)
    if encoding is not None:
        assert part_bytes("value", value, encoding) == data
    else:
        assert data is None or json.loads(data) == value


@given(VALUES.filter(lambda value: value is not None))
def test_json_values_come_back(value: Any) -> None:
    data = part_bytes("value", value, None)
    assert shown_part(data) == (value, None)


def test_a_key_that_is_text_is_that_text() -> None:
    assert part_bytes("key", "user-123", None) == b"user-123"
    assert part_bytes("key", "user-123", "json") == b'"user-123"'
    assert part_bytes("value", "user-123", None) == b'"user-123"'


@pytest.mark.parametrize(
    ("value", "encoding"),
    [("?", "base64"), (5, "text"), ("x", "rot13"), ("x", 5), ("\ud800", "text"), ("\ud800", None)],
)
def test_a_part_that_cannot_be_written_is_refused(value: Any, encoding: Any) -> None:
    with pytest.raises(ValueError, match="the value"):
        part_bytes("value", value, encoding)


def test_headers_are_shown_by_name() -> None:
    headers = (("a", b"1"), ("b", None), ("a", b"2"), ("c", b"\xff"), ("a", b"3"))
    record = ConsumerRecord("t", 0, 5, 7, None, None, headers)
    shown = json.loads(to_json(described(record)))
    assert shown["headers"] == {"a": ["1", "2", "3"], "b": None, "c": {"base64": "/w=="}}
    assert sorted(header_pairs(shown["headers"])) == sorted(headers)


@pytest.mark.parametrize("headers", [[], "x", {"a": 5}, {"a": {"base64": "?"}}, {"a": {}}, {"a": "\ud800"}])
def test_headers_that_cannot_be_written_are_refused(headers: Any) -> None:
    with pytest.raises(ValueError, match="header"):
        header_pairs(headers)
