"""A cooperative member, and one that follows a pattern, against a fake broker that deals partitions out as
the test wants.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tests.unit.client.consumer.test_consumer import T0, values
from tests.unit.client.consumer.test_consumer_groups import Listener, eventually, in_group, polling_until
from tests.unit.client.fake_cluster import FakeCluster

from ottla.client.consumer.consumer import Consumer
from ottla.client.requests.consumer_protocol import MemberSubscription, decode_subscription, encode_assignment
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import groups, metadata, offsets

T1 = TopicPartition("t", 1)
COOPERATIVE = {"partition_assignment_strategy": ["cooperative-sticky"]}


class Dealer(FakeCluster):
    """Gives the assignments of a list, one for each rebalance, and the last one from then on."""

    def __init__(self, *assignments: set[TopicPartition], partitions: int = 2) -> None:
        super().__init__(partitions)
        self._assignments = list(assignments)
        self.broker.on(groups.SyncGroupRequest, self._deal)

    def _deal(self, request: groups.SyncGroupRequest, header: RequestHeader) -> Any:
        if code := self._error(request):
            return groups.SyncGroupResponse(error_code=code)
        dealt = self._assignments.pop(0) if len(self._assignments) > 1 else self._assignments[0]
        return groups.SyncGroupResponse(assignment=encode_assignment(dealt))

    def rebalance(self) -> None:
        self.errors[groups.HeartbeatRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]

    def has_dealt(self, times: int) -> bool:
        """Whether `times` generations have their assignments. A heartbeat before that tells a member nothing."""
        return len(self.asked_for(groups.SyncGroupRequest)) == times

    def claims(self) -> list[MemberSubscription]:
        """The member's subscriptions, one for each join."""
        joins = self.asked_for(groups.JoinGroupRequest)
        return [decode_subscription(join.protocols[0].metadata) for join in joins]


def test_only_what_is_taken_away_goes_and_then_the_group_is_asked_to_rebalance_again() -> None:
    cluster = Dealer({T0, T1}, {T0})
    cluster.append(b"a", b"b")
    cluster.append(b"x", partition=1)
    listener = Listener()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"], on_assigned=listener.assigned, on_revoked=listener.revoked)
        assert len(await values(consumer, 3)) == 3
        cluster.rebalance()
        await polling_until(consumer, lambda: cluster.generation_id == 3 and len(listener.heard) == 4)
        assert consumer.assignment == {T0}
        assert consumer.position(T0) == 2  # never given up

    in_group(cluster, body, **COOPERATIVE)
    told = [("assigned", [0, 1]), ("revoked", [1]), ("assigned", []), ("assigned", []), ("revoked", [0])]
    assert listener.heard == told
    first, second, third = cluster.claims()
    assert (set(first.owned), first.generation_id) == (set(), -1)
    assert (set(second.owned), second.generation_id) == ({T0, T1}, 1)
    assert (set(third.owned), third.generation_id) == ({T0}, 2)
    assert cluster.committed == {T0: 2, T1: 1}


def test_the_application_reads_on_while_the_group_rebalances() -> None:
    cluster = Dealer({T0}, {T0, T1})
    cluster.append(b"a")
    gate = asyncio.Event()
    join = cluster.broker.answer_to(groups.JoinGroupRequest)

    async def parked(request: groups.JoinGroupRequest, header: RequestHeader) -> Any:
        if cluster.generation_id == 1:
            await gate.wait()
        return join(request, header)

    cluster.broker.on(groups.JoinGroupRequest, parked)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        assert await values(consumer, 1) == [b"a"]
        cluster.rebalance()
        await eventually(lambda: len(cluster.asked_for(groups.JoinGroupRequest)) == 2)
        cluster.append(b"b")
        assert await values(consumer, 1) == [b"b"]  # while the group waits for others
        gate.set()
        await polling_until(consumer, lambda: consumer.assignment == {T0, T1})

    in_group(cluster, body, **COOPERATIVE)
    assert len(cluster.claims()) == 2


def test_a_commit_during_a_rebalance_is_repeated_in_the_next_generation() -> None:
    cluster = Dealer({T0})
    cluster.append(b"a")

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await values(consumer, 1)
        cluster.errors[offsets.OffsetCommitRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
        await consumer.commit()
        assert cluster.committed == {T0: 1}

    in_group(cluster, body, enable_auto_commit=False, **COOPERATIVE)
    generations = [
        ask.generation_id_or_member_epoch for ask in cluster.asked_for(offsets.OffsetCommitRequest)
    ]
    assert generations[0] == 1
    assert generations[-1] == 2


def test_who_is_thrown_out_loses_everything_and_claims_nothing() -> None:
    cluster = Dealer({T0, T1})
    listener = Listener()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"], on_assigned=listener.assigned, on_lost=listener.lost)
        await polling_until(consumer, lambda: len(listener.heard) == 1)
        cluster.errors[groups.HeartbeatRequest] = [ErrorCode.UNKNOWN_MEMBER_ID]
        await polling_until(consumer, lambda: len(listener.heard) == 3)

    in_group(cluster, body, **COOPERATIVE)
    assert listener.heard[1:3] == [("lost", [0, 1]), ("assigned", [0, 1])]
    assert set(cluster.claims()[1].owned) == set()


def test_an_assignment_that_was_never_taken_over_is_not_claimed() -> None:
    cluster = Dealer({T0}, {T0, T1}, {T0, T1})

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await polling_until(consumer, lambda: consumer.assignment == {T0})
        cluster.rebalance()
        await eventually(lambda: cluster.has_dealt(2))  # the application does not poll
        cluster.rebalance()
        await eventually(lambda: cluster.has_dealt(3))
        await polling_until(consumer, lambda: consumer.assignment == {T0, T1})

    in_group(cluster, body, **COOPERATIVE)
    assert [set(claim.owned) for claim in cluster.claims()] == [set(), {T0}, {T0}]


def test_a_sticky_member_tells_what_it_had_although_it_gave_it_up() -> None:
    cluster = Dealer({T0}, {T0, T1})

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await polling_until(consumer, lambda: consumer.assignment == {T0})
        cluster.rebalance()
        await polling_until(consumer, lambda: cluster.generation_id == 2)

    in_group(cluster, body, partition_assignment_strategy=["sticky"])
    first, second = cluster.claims()[:2]
    assert first.user_data is None
    assert second.user_data is not None
    assert (second.owned, b"\0\1t" in second.user_data) == ((), True)


# ---- patterns and topics


def test_a_pattern_finds_topics_now_and_later_but_no_internal_ones() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    names = ["t", "__t"]
    answer = cluster.broker.answer_to(metadata.MetadataRequest)

    def all_topics(request: metadata.MetadataRequest, header: RequestHeader) -> Any:
        if request.topics is not None:
            return answer(request, header)
        every = [metadata.MetadataRequestTopic(name="t") for _ in names]
        response = answer(metadata.MetadataRequest(topics=every), header)
        for topic, name in zip(response.topics, names, strict=True):
            topic.name, topic.is_internal = name, name.startswith("__")
        return response

    cluster.broker.on(metadata.MetadataRequest, all_topics)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(re.compile(".*t"))
        assert await values(consumer, 1) == [b"a"]
        assert consumer.subscription == {"t"}
        assert cluster.generation_id == 1
        names.append("later-t")
        await polling_until(consumer, lambda: consumer.subscription == {"t", "later-t"})
        await polling_until(consumer, lambda: TopicPartition("later-t", 0) in consumer.assignment)

    in_group(cluster, body)


def test_who_unsubscribes_leaves_and_may_come_back_another_way() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        assert await values(consumer, 1) == [b"a"]
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription) == (frozenset(), frozenset())
        assert cluster.committed == {T0: 1}
        assert len(cluster.asked_for(groups.LeaveGroupRequest)) == 1
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"b"]
        await consumer.unsubscribe()
        consumer.subscribe(["t"])
        await polling_until(consumer, lambda: consumer.assignment == {T0})

    in_group(cluster, body)
