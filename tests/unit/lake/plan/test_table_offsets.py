"""Offsets as a table keeps them."""

from __future__ import annotations

import pytest

from ottla.lake.plan.table_offsets import TableOffsets, offsets_of_json


def test_offsets_survive_their_json_and_only_go_forward() -> None:
    first = TableOffsets("orders", "id", {1: 5, 0: 3})
    assert offsets_of_json(first.as_json()) == first
    assert first.advanced({0: 9, 2: 1}).next_offsets == {0: 9, 1: 5, 2: 1}
    with pytest.raises(AssertionError, match="would go back"):
        first.advanced({1: 4})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"topic": "a", "topic_id": "b", "next_offsets": {"x": 1}}']
)
def test_what_is_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ottla\.offsets"):
        offsets_of_json(text)
