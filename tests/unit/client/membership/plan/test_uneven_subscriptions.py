"""Assignments to members that subscribe to different topics (GRP-2)."""

from __future__ import annotations

from tests.unit.client.assigned_groups import partitions_of, shown

from ottla.client.membership.plan.uneven_subscriptions import assign_uneven


def test_what_is_free_goes_to_the_member_with_the_least_that_wants_it() -> None:
    topics = {"a": ["t"], "b": ["t", "u"]}
    assert shown(assign_uneven(topics, {"t": 2, "u": 2}, {"a": [], "b": []}, {})) == "a:t-0,t-1 b:u-0,u-1"


def test_who_has_much_more_gives_and_what_nobody_else_wants_stays() -> None:
    topics = {"a": ["t", "u"], "b": ["t"]}
    owned = {"a": partitions_of("t-0,t-1,t-2,t-3,u-0"), "b": ()}
    assert shown(assign_uneven(topics, {"t": 4, "u": 1}, owned, {})) == "a:t-2,t-3,u-0 b:t-0,t-1"


def test_a_partition_goes_back_to_the_one_who_had_it_before() -> None:
    topics = {"a": ["t", "u"], "b": ["t"], "c": ["t"]}
    owned = {"a": partitions_of("t-0,t-1,t-2"), "b": (), "c": ()}
    before = dict.fromkeys(partitions_of("t-0"), "c")
    assert shown(assign_uneven(topics, {"t": 3, "u": 0}, owned, before)) == "a:t-2 b:t-1 c:t-0"


def test_a_member_that_wants_nothing_that_exists_gets_nothing() -> None:
    topics = {"a": ["gone"], "b": ["t"]}
    assert shown(assign_uneven(topics, {"t": 2}, {"a": [], "b": []}, {})) == "a: b:t-0,t-1"
    assert shown(assign_uneven({"a": [], "b": ["x"]}, {}, {"a": [], "b": []}, {})) == "a: b:"
