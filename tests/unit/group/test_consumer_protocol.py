"""Of a consumer's subscription only the topics are read, whatever follows, and nothing breaks the reader."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.group.shell import subscription

from ottla.group.consumer_protocol import all_subscribed_topics, subscribed_topics


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_every_version_begins_with_the_topics(version: int) -> None:
    assert subscribed_topics(subscription("a", "é", version=version)) == frozenset({"a", "é"})
    assert subscribed_topics(subscription(version=version, rest=b"rest")) == frozenset()


def test_a_client_may_leave_out_what_comes_behind() -> None:
    assert subscribed_topics(pack(">hih1s", 1, 1, 1, b"t")) == frozenset({"t"})


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0\0\0",
        pack(">hi", -1, 0),
        pack(">hi", 0, -1),
        pack(">hi", 0, 2**31 - 1),
        pack(">hih", 0, 1, 5) + b"abc",
        pack(">hih", 0, 1, -1),
        pack(">hih", 0, 1, 1) + b"\xff",
    ],
)
def test_what_cannot_be_read_is_told_apart_from_no_topics(damaged: bytes) -> None:
    assert subscribed_topics(damaged) is None
    assert all_subscribed_topics([subscription("a"), damaged]) is None


def test_a_group_subscribes_to_what_any_of_its_members_does() -> None:
    assert all_subscribed_topics([subscription("a"), subscription("a", "b")]) == frozenset({"a", "b"})
    assert all_subscribed_topics([]) == frozenset()


@given(st.binary(max_size=40))
def test_any_bytes_are_topics_or_none(data: bytes) -> None:
    topics = subscribed_topics(data)
    assert topics is None or all(isinstance(topic, str) for topic in topics)
