"""Search and pages of lists."""

from __future__ import annotations

from ottla.gateway.console.machine.listing import named_like, page_of


def test_names_that_begin_with_the_text_come_first() -> None:
    assert named_like(["my-orders", "Orders", "tea"], "order", str) == ["Orders", "my-orders"]
    assert named_like(["b", "a"], " ", str) == ["b", "a"]


def test_a_page_has_its_rows_and_the_whole_count() -> None:
    rows, facts = page_of(range(2_000), 3, 50)
    assert list(rows) == list(range(100, 150))
    assert facts == {"total": 2_000, "page": 3, "pages": 40, "per_page": 50}


def test_a_page_behind_the_end_is_the_last_one() -> None:
    rows, facts = page_of(range(12), 9, 5)
    assert (list(rows), facts["page"]) == ([10, 11], 3)
    assert page_of([], 4, 5) == ([], {"total": 0, "page": 1, "pages": 1, "per_page": 5})
