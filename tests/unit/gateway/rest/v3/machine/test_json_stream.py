"""JSON objects out of bytes that come in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateway.rest.v3.machine.json_stream import OBJECT_BYTES, JsonStream

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(['"', "\\", '{"', '\\"}', "}{"])
OBJECTS = st.dictionaries(
    TEXTS, TEXTS | st.integers() | st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=3
)


@given(
    st.lists(st.tuples(OBJECTS, st.sampled_from([b"", b"\n", b" \r\n\t"]), st.booleans()), max_size=5),
    st.lists(st.integers(1, 7)),
)
def test_objects_are_found_however_the_bytes_are_cut(
    parts: list[tuple[dict[str, Any], bytes, bool]], cuts: list[int]
) -> None:
    data = b"".join(
        json.dumps(each, ensure_ascii=ascii_only).encode() + space for each, space, ascii_only in parts
    )
    stream = JsonStream()
    found: list[Any] = []
    for size in cuts:
        found += map(json.loads, stream.feed(data[:size]))
        data = data[size:]
    found += map(json.loads, stream.feed(data))
    stream.finish()
    assert found == [each for each, _, _ in parts]


@pytest.mark.parametrize("data", [b"[1]", b"5", b'{"a": 1} x', b'"text"', b"}"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="JSON objects"):
        list(JsonStream().feed(data))


def test_an_object_without_an_end_is_refused() -> None:
    stream = JsonStream()
    assert list(stream.feed(b'{"a": "')) == []
    with pytest.raises(ValueError, match="ends within"):
        stream.finish()
    with pytest.raises(ValueError, match="may have"):
        list(stream.feed(b"x" * OBJECT_BYTES))
