"""Bodies of requests are refused with a sentence that names the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.gateway.console.machine.questions import Body
from ottla.gateway.http.machine.http_error import HttpError

BODY = Body(
    {
        "name": "a",
        "n": 3,
        "flag": True,
        "texts": ["x"],
        "settings": {"a": None},
        "items": [{"n": 1}],
        "bad": 1.5,
    }
)


def test_fields_of_the_right_kind_are_returned() -> None:
    assert (BODY.text("name"), BODY.number("n"), BODY.flag("flag")) == ("a", 3, True)
    assert (BODY.texts("texts"), BODY.settings("settings")) == (["x"], {"a": None})
    assert [each.number("n") for each in BODY.items("items", 5)] == [1]
    assert (BODY.optional_number("none"), BODY.flag("none"), BODY.text("none", "d")) == (None, False, "d")
    assert BODY.choice("name", ["a", "b"]) == "a"


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda: BODY.text("missing"), "missing"),
        (lambda: BODY.text("n"), "n"),
        (lambda: BODY.number("bad"), "bad"),
        (lambda: BODY.number("flag"), "flag"),
        (lambda: BODY.number("n", 4), "n"),
        (lambda: BODY.flag("n"), "n"),
        (lambda: BODY.texts("n"), "n"),
        (lambda: BODY.settings("n"), "n"),
        (lambda: BODY.items("n", 5), "n"),
        (lambda: BODY.items("items", 0), "items"),
        (lambda: BODY.choice("name", ["b"]), "name"),
    ],
)
def test_others_are_refused_by_name(ask: Callable[[], Any], name: str) -> None:
    with pytest.raises(HttpError, match=f'"{name}"') as refused:
        ask()
    assert refused.value.status == 422
