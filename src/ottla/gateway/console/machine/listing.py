"""Search, order and pages of lists: a page has so many rows, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ottla.gateway.http.machine.parameters import Parameter

T = TypeVar("T")

PER_PAGE: Final = 50
LIST_PARAMETERS: Final = (
    Parameter("search", "Only names that contain this text.", default=""),
    Parameter("page", "Which page, from 1 on.", "integer", default=1, at_least=1, at_most=1_000_000),
    Parameter("per_page", "Rows of a page.", "integer", default=PER_PAGE, at_least=1, at_most=500),
)


def named_like(items: Sequence[T], search: str, name: Callable[[T], str]) -> list[T]:
    """The items whose name contains a text, in large or small letters; those that begin with it first."""
    wanted = search.strip().lower()
    if not wanted:
        return list(items)
    found = [each for each in items if wanted in name(each).lower()]
    return sorted(found, key=lambda each: not name(each).lower().startswith(wanted))


def page_of(items: Sequence[T], page: int, per_page: int) -> tuple[Sequence[T], dict[str, Any]]:
    """The rows of a page, and what there is in all. A page behind the end is the last one."""
    pages = max(1, -(-len(items) // per_page))
    page = min(page, pages)
    begin = (page - 1) * per_page
    facts = {"total": len(items), "page": page, "pages": pages, "per_page": per_page}
    return items[begin : begin + per_page], facts
