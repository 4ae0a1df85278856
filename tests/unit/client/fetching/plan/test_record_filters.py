from __future__ import annotations

import pytest

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.fetching.plan.record_filters import all_of, parse_condition

ORDER = ConsumerRecord(
    "orders",
    3,
    17,
    1_000,
    b"42",
    b'{"user": {"name": "Ada", "age": 36}, "items": ["pen", "ink"], "paid": true, "note": null}',
    (("trace", b"abc"), ("empty", None)),
)
PLAIN = ConsumerRecord("orders", 0, 0, 0, None, b"an error = happened", ())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("key=42", [True, False]),
        ("key!=42", [False, True]),
        ("value~error", [False, True]),
        ("value=an error = happened", [False, True]),
        ("value!~Ada", [False, True]),
        ("value.user.name=Ada", [True, False]),
        ("value.user.age=36", [True, False]),
        ("value.items.1=ink", [True, False]),
        ("value.items.9=ink", [False, False]),
        ("value.paid=true", [True, False]),
        ("value.user~^.*36", [True, False]),
        ("value.note=null", [False, False]),
        ("value.user.name.first=A", [False, False]),
        ("header.trace=abc", [True, False]),
        ("header.trace != abc", [True, True]),  # the text begins with a space
        ("header.empty~.", [False, False]),
        ("partition=3", [True, False]),
        ("offset~^1", [True, False]),
        ("topic=orders", [True, True]),
    ],
)
def test_a_condition_holds_or_does_not(condition: str, expected: list[bool]) -> None:
    assert [parse_condition(condition)(record) for record in (ORDER, PLAIN)] == expected


def test_all_of_several_must_hold() -> None:
    both = all_of([parse_condition("key=42"), parse_condition("partition=3")])
    assert (both(ORDER), both(PLAIN)) == (True, False)
    assert all_of([])(PLAIN)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", '"nonsense" is no condition: write a field'),
        ("=x", "is no condition"),
        ("size=3", 'there is no field "size"'),
        ("header=3", 'there is no field "header"'),
        ("value~(", r'"\(" in "value~\(" is no regular expression'),
    ],
)
def test_what_is_no_condition_is_told_in_a_sentence(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_condition(text)
