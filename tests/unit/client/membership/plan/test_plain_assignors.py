"""Range and round robin (GRP-2): what Java's give (Kafka 4.3.1, run once to write these vectors), and what
the assignors of the Python clients give for random groups.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.other_clients import (
    AiokafkaRange,
    AiokafkaRoundRobin,
    KafkaPythonRange,
    KafkaPythonRoundRobin,
)

from ottla.client.membership.plan.assignors import ASSIGNORS, Assignor, GroupedMember
from ottla.client.requests.consumer_protocol import MemberSubscription

PLAIN = {name: ASSIGNORS[name] for name in ("range", "roundrobin")}

# assignor, partitions of each topic, members (id or id/instance, and topics), partitions of each member
FROM_JAVA = [
    ("range", "t=4", "a:t b:t", "a:t-0,t-1 b:t-2,t-3"),
    ("roundrobin", "t=4", "a:t b:t", "a:t-0,t-2 b:t-1,t-3"),
    ("range", "t=3", "a:t b:t", "a:t-0,t-1 b:t-2"),
    ("roundrobin", "t=3", "a:t b:t", "a:t-0,t-2 b:t-1"),
    ("range", "t0=3 t1=3", "a:t0,t1 b:t0,t1", "a:t0-0,t0-1,t1-0,t1-1 b:t0-2,t1-2"),
    ("roundrobin", "t0=3 t1=3", "a:t0,t1 b:t0,t1", "a:t0-0,t0-2,t1-1 b:t0-1,t1-0,t1-2"),
    ("range", "t=2", "c:t a:t b:t", "a:t-0 b:t-1 c:"),
    ("roundrobin", "t=2", "c:t a:t b:t", "a:t-0 b:t-1 c:"),
    ("range", "t0=1 t1=2 t2=3", "c0:t0 c1:t0,t1 c2:t0,t1,t2", "c0:t0-0 c1:t1-0 c2:t1-1,t2-0,t2-1,t2-2"),
    ("roundrobin", "t0=1 t1=2 t2=3", "c0:t0 c1:t0,t1 c2:t0,t1,t2", "c0:t0-0 c1:t1-0 c2:t1-1,t2-0,t2-1,t2-2"),
    ("range", "t=3", "z/i1:t a:t m/i0:t", "a:t-2 m:t-0 z:t-1"),
    ("roundrobin", "t=3", "z/i1:t a:t m/i0:t", "a:t-2 m:t-0 z:t-1"),
    ("range", "t=5", "a:t z/i9:t b/i1:t c:t", "a:t-3 b:t-0,t-1 c:t-4 z:t-2"),
    ("roundrobin", "t=5", "a:t z/i9:t b/i1:t c:t", "a:t-2 b:t-0,t-4 c:t-3 z:t-1"),
    ("range", "t=7 u=5", "m1:t,u m2:u m3:t", "m1:t-0,t-1,t-2,t-3,u-0,u-1,u-2 m2:u-3,u-4 m3:t-4,t-5,t-6"),
    ("roundrobin", "t=7 u=5", "m1:t,u m2:u m3:t", "m1:t-0,t-2,t-4,t-6,u-1,u-3 m2:u-0,u-2,u-4 m3:t-1,t-3,t-5"),
    ("range", "u=2", "a:t,u b:u,gone", "a:u-0 b:u-1"),
    ("roundrobin", "u=2", "a:t,u b:u,gone", "a:u-0 b:u-1"),
    ("range", "t=0 u=1", "a:u b:", "a:u-0 b:"),
    ("roundrobin", "t=0 u=1", "a:u b:", "a:u-0 b:"),
    ("range", "b=2 a=2 C=2", "x:b,a,C y:C,b,a", "x:C-0,a-0,b-0 y:C-1,a-1,b-1"),
    ("roundrobin", "b=2 a=2 C=2", "x:b,a,C y:C,b,a", "x:C-0,a-0,b-0 y:C-1,a-1,b-1"),
    ("range", "t=10", "m10:t m2:t m1:t", "m1:t-0,t-1,t-2,t-3 m10:t-4,t-5,t-6 m2:t-7,t-8,t-9"),
    ("roundrobin", "t=10", "m10:t m2:t m1:t", "m1:t-0,t-3,t-6,t-9 m10:t-1,t-4,t-7 m2:t-2,t-5,t-8"),
    ("range", "t0=2 t1=2 t2=2", "a/s:t0,t2 b:t1 c/r:t0,t1,t2", "a:t0-1,t2-1 b:t1-1 c:t0-0,t1-0,t2-0"),
    ("roundrobin", "t0=2 t1=2 t2=2", "a/s:t0,t2 b:t1 c/r:t0,t1,t2", "a:t0-1,t2-0 b:t1-0 c:t0-0,t1-1,t2-1"),
    (
        "range",
        "orders=12 payments=6 audit=1",
        "c1:orders,payments c2:orders,payments,audit c3:orders c4:payments,audit c5:orders,payments",
        "c1:orders-0,orders-1,orders-2,payments-0,payments-1 c2:audit-0,orders-3,orders-4,orders-5,payments-2,payments-3 c3:orders-6,orders-7,orders-8 c4:payments-4 c5:orders-10,orders-11,orders-9,payments-5",
    ),
    (
        "roundrobin",
        "orders=12 payments=6 audit=1",
        "c1:orders,payments c2:orders,payments,audit c3:orders c4:payments,audit c5:orders,payments",
        "c1:orders-10,orders-2,orders-6,payments-2 c2:audit-0,orders-11,orders-3,orders-7,payments-3 c3:orders-0,orders-4,orders-8 c4:payments-0,payments-4 c5:orders-1,orders-5,orders-9,payments-1,payments-5",
    ),
]


def members_of(text: str) -> list[GroupedMember]:
    """Members written as `a:t,u b/instance:t`."""
    members = []
    for part in text.split():
        identity, _, topics = part.partition(":")
        member_id, _, instance_id = identity.partition("/")
        subscription = MemberSubscription(tuple(topics.split(",")) if topics else ())
        members.append(GroupedMember(member_id, subscription, instance_id or None))
    return members


def counts_of(text: str) -> dict[str, int]:
    return {topic: int(count) for topic, _, count in (part.partition("=") for part in text.split())}


def shown(assignment: dict[str, list[Any]]) -> str:
    return " ".join(f"{m}:{','.join(sorted(map(str, assignment[m])))}" for m in sorted(assignment))


@pytest.mark.parametrize(("name", "counts", "members", "expected"), FROM_JAVA)
def test_the_partitions_are_those_that_java_gives(
    name: str, counts: str, members: str, expected: str
) -> None:
    assert shown(ASSIGNORS[name].assign(members_of(members), counts_of(counts))) == expected


@pytest.mark.parametrize("name", PLAIN)
def test_the_order_in_which_members_joined_does_not_matter(name: str) -> None:
    members = members_of("a:t z/i9:t b/i1:t,u c:u")
    counts = {"t": 5, "u": 3}
    expected = ASSIGNORS[name].assign(members, counts)
    assert ASSIGNORS[name].assign(members[::-1], counts) == expected


@pytest.mark.parametrize("name", PLAIN)
def test_a_static_member_under_a_new_id_gets_the_same_partitions(name: str) -> None:
    before = ASSIGNORS[name].assign(members_of("m1/a:t m2/b:t m3/c:t"), {"t": 7})
    after = ASSIGNORS[name].assign(members_of("m9/a:t m2/b:t m3/c:t"), {"t": 7})
    assert after == {"m9": before["m1"], "m2": before["m2"], "m3": before["m3"]}


TOPICS = ["t0", "t1", "t2"]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
SUBSCRIPTIONS = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)
GROUPS = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), SUBSCRIPTIONS, min_size=1, max_size=6)


def dynamic(group: dict[str, list[str]]) -> list[GroupedMember]:
    return [
        GroupedMember(member_id, MemberSubscription(tuple(topics))) for member_id, topics in group.items()
    ]


@given(GROUPS, COUNTS)
def test_every_partition_that_somebody_wants_has_one_owner_who_wants_it(
    group: dict[str, list[str]], counts: dict[str, int]
) -> None:
    wanted = {(t, p) for topics in group.values() for t in topics for p in range(counts.get(t, 0))}
    for assignor in PLAIN.values():
        assignment = assignor.assign(dynamic(group), counts)
        given_out = [partition for partitions in assignment.values() for partition in partitions]
        assert set(assignment) == set(group)
        assert len(given_out) == len(set(given_out))
        assert set(given_out) == wanted
        assert all(each.topic in group[m] for m, partitions in assignment.items() for each in partitions)


def cluster_of(counts: dict[str, int]) -> Any:
    """The one thing that the Python clients' assignors ask a cluster for."""
    return SimpleNamespace(partitions_for_topic=lambda topic: set(range(counts.get(topic, 0))) or None)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(PLAIN["range"], AiokafkaRange), (PLAIN["roundrobin"], AiokafkaRoundRobin)]
)
@given(group=GROUPS, counts=COUNTS)
def test_aiokafka_gives_the_same(
    ours: Assignor, theirs: Any, group: dict[str, list[str]], counts: dict[str, int]
) -> None:
    subscriptions = {m: SimpleNamespace(subscription=topics) for m, topics in group.items()}
    expected = theirs.assign(cluster_of(counts), subscriptions)
    assert ours.assign(dynamic(group), counts) == {m: each.partitions() for m, each in expected.items()}


@pytest.mark.parametrize(
    ("ours", "theirs"), [(PLAIN["range"], KafkaPythonRange), (PLAIN["roundrobin"], KafkaPythonRoundRobin)]
)
@given(names=st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=6), counts=COUNTS)
def test_kafka_python_gives_the_same(
    ours: Assignor, theirs: Any, names: set[str], counts: dict[str, int]
) -> None:
    """With one subscription for all: its round robin fails on members that want different topics."""
    metadata = SimpleNamespace(topics=TOPICS)
    members = [SimpleNamespace(member_id=m, group_instance_id=None, metadata=metadata) for m in names]
    expected = theirs.assign(cluster_of(counts), members)
    partitions = {m: each.partitions() for m, each in expected.items()}
    assert ours.assign(dynamic(dict.fromkeys(names, TOPICS)), counts) == partitions
