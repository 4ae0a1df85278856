"""Content-Type and Accept."""

from __future__ import annotations

import pytest

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.media_types import answer_type, body_type

JSON_V2 = "application/vnd.kafka.json.v2+json"
V2 = "application/vnd.kafka.v2+json"
JSON = "application/json"


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        (None, V2),
        ("", V2),
        ("*/*", V2),
        ("application/*", V2),
        ("application/json", JSON),
        ("application/json;q=0.1, */*;q=0.5", V2),
        ("application/json;q=0.9, application/vnd.kafka.v2+json;q=0.2", JSON),
        ("text/html, application/JSON; charset=utf-8", JSON),
        (f"{V2};q=0, {JSON}", JSON),
        (f"*/*, {JSON};q=0.2", V2),
    ],
)
def test_the_best_type_is_chosen(header: str | None, chosen: str) -> None:
    assert answer_type(header, (V2, JSON)) == chosen


@pytest.mark.parametrize("header", ["text/html", "application/json;q=0", "application/json;q=x", ",", "*"])
def test_an_answer_that_nobody_accepts_is_refused(header: str) -> None:
    with pytest.raises(HttpError) as refused:
        answer_type(header, (JSON,))
    assert refused.value.status == 406


def test_a_body_is_one_of_the_types_that_are_taken() -> None:
    assert body_type("Application/JSON; charset=utf-8", (JSON_V2, JSON)) == JSON
    for header in (None, "", "text/plain", "application/vnd.kafka.avro.v2+json"):
        with pytest.raises(HttpError) as refused:
            body_type(header, (JSON_V2, JSON))
        assert (refused.value.status, JSON_V2 in refused.value.message) == (415, True)
