"""The sticky assignors: what Java's give, and what they promise: even, with few changes, and nothing twice
(GRP-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.unit.client.assigned_groups import counts_of, group_story, members_of, shown
from tests.unit.client.sticky_vectors import FROM_JAVA

from ottla.client.membership.plan.assignors import ASSIGNORS, GroupedMember
from ottla.client.requests.consumer_protocol import MemberSubscription
from ottla.model import TopicPartition

STICKY = ("sticky", "cooperative-sticky")
SEEDS = range(60)


@pytest.mark.parametrize(("name", "counts", "members", "expected"), FROM_JAVA)
def test_the_partitions_are_those_that_java_gives(
    name: str, counts: str, members: str, expected: str
) -> None:
    assert shown(ASSIGNORS[name].assign(members_of(name, members), counts_of(counts))) == expected


def owners(assignment: Mapping[str, Sequence[TopicPartition]]) -> dict[TopicPartition, str]:
    found = [(each, m) for m, partitions in assignment.items() for each in partitions]
    assert len(dict(found)) == len(found), "a partition has two owners"
    return dict(found)


@pytest.mark.parametrize("same_topics", [True, False])
def test_everything_has_one_owner_who_wants_it_and_equal_members_differ_by_one_at_most(
    same_topics: bool,
) -> None:
    for seed in SEEDS:
        for now in group_story(seed, same_topics=same_topics):
            assignment = ASSIGNORS["sticky"].assign(now.members("sticky"), now.counts)
            wanted = {
                TopicPartition(topic, index)
                for topics in now.topics.values()
                for topic in topics
                for index in range(now.counts[topic])
            }
            assert owners(assignment).keys() == wanted, f"seed {seed}"
            assert all(each.topic in now.topics[m] for each, m in owners(assignment).items())
            if same_topics:
                sizes = [len(partitions) for partitions in assignment.values()]
                assert max(sizes) - min(sizes) <= 1, f"seed {seed}"
            now.held = assignment


def test_nobody_loses_more_than_the_even_share_of_others_asks_for() -> None:
    for seed in SEEDS:
        for now in group_story(seed, same_topics=True):
            held = {m: set(now.held.get(m, ())) for m in now.topics}
            assignment = ASSIGNORS["sticky"].assign(now.members("sticky"), now.counts)
            least = sum(now.counts.values()) // len(now.topics)
            for m, before in held.items():
                lost = before - set(assignment[m])
                assert len(lost) <= max(0, len(before) - least), f"seed {seed}"
            now.held = assignment


@pytest.mark.parametrize("same_topics", [True, False])
def test_a_cooperative_group_gives_nobody_what_another_still_holds_and_settles(same_topics: bool) -> None:
    name = "cooperative-sticky"
    for seed in SEEDS:
        for now in group_story(seed, same_topics=same_topics):
            for _ in range(3):
                holders = owners({m: now.held.get(m, []) for m in now.topics})
                assignment = ASSIGNORS[name].assign(now.members(name), now.counts)
                for partition, m in owners(assignment).items():
                    assert holders.get(partition, m) == m, f"seed {seed}"
                given_up = {each for each, m in holders.items() if each not in assignment[m]}
                now.held = assignment
                now.generations = dict.fromkeys(now.topics, max(now.generations.values(), default=0) + 1)
                if not given_up:
                    break
            else:
                pytest.fail(f"seed {seed}: it moves on and on")
            even = ASSIGNORS["sticky"].assign(now.members("sticky"), now.counts)
            if same_topics:
                assert sorted(map(len, assignment.values())) == sorted(map(len, even.values()))


def test_user_data_that_makes_no_sense_claims_nothing() -> None:
    nonsense = [
        GroupedMember(m, MemberSubscription(("t",), user_data=data))
        for m, data in (("a", b"\xff"), ("b", b""), ("c", b"\0\0\0\5\0"))
    ]
    for name in STICKY:
        assignment = ASSIGNORS[name].assign(nonsense, {"t": 3})
        assert [len(partitions) for partitions in assignment.values()] == [1, 1, 1]


def test_partitions_that_are_gone_are_not_given_out_and_nobody_is_a_group_too() -> None:
    for name in STICKY:
        members = members_of(name, "a:t:t-0,t-7,gone-1@4")
        assert shown(ASSIGNORS[name].assign(members, {"t": 2, "gone": 0})) == "a:t-0,t-1"
        assert ASSIGNORS[name].assign([], {"t": 2}) == {}
