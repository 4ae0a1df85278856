"""Conversations with a cluster that exists only as a script: which address is asked what, and in which
order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ottla.client.cluster.machine.conversation import Ask, Conversation, Send, Steps, asked, refreshed
from ottla.client.cluster.machine.coordinators import by_coordinator, find_coordinators
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.topic_inquiries import list_offsets
from ottla.client.requests.coordinators import CoordinatorType
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address, TopicPartition
from ottla.protocol.messages.coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.failures import CannotConnectError, ConnectionLostError
from ottla.wire.versions import FinalizedFeatures

T = TypeVar("T")

ONE, TWO, THREE = Address("one", 1), Address("two", 2), Address("three", 3)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REFUSED, LOST, LATE = CannotConnectError("refused"), ConnectionLostError("lost"), TimeoutError("late")

Answer = Callable[[Address, Any], Any]


class Talk:
    """Drives conversations with answers from `answer(address, request)`; an exception is a failure."""

    def __init__(self, known: KnownCluster, answer: Answer) -> None:
        self.known = known
        self.answer = answer
        self.sent: list[tuple[str, str]] = []

    def about(self, steps: Steps[T]) -> T:
        conversation = Conversation(self.known, steps, 0)
        while (want := conversation.wants) is not None:
            assert isinstance(want, Send)
            self.sent.append((want.address.host, type(want.ask.request).__name__))
            response = self.answer(want.address, want.ask.request)
            if isinstance(response, Exception):
                conversation.failed(response, 0)
            else:
                conversation.heard(response, 0)
        return conversation.result


def of_cluster(address: Address, request: Any) -> Any:
    """Broker 1 leads t-0, broker 2 leads t-1; broker 2 coordinates every group."""
    if isinstance(request, MetadataRequest):
        brokers = [MetadataResponseBroker(1, "one", 1), MetadataResponseBroker(2, "two", 2)]
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=index + 1) for index in range(2)
        ]
        topics = [MetadataResponseTopic(name="t", partitions=partitions)]
        return MetadataResponse(brokers=brokers, topics=topics)
    if isinstance(request, ListOffsetsRequest):
        answers = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=address.port)
            for topic in request.topics
            for each in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])
    if isinstance(request, FindCoordinatorRequest):
        found = [Coordinator(key=key, node_id=2) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    return "answer"


def without(down: dict[Address, Exception], answer: Answer = of_cluster) -> Answer:
    return lambda address, request: down.get(address) or answer(address, request)


def test_where_any_broker_will_do_the_next_address_is_tried_if_one_cannot_be_reached() -> None:
    talk = Talk(KnownCluster([ONE, TWO, THREE]), without({ONE: REFUSED}))
    assert talk.about(asked(Ask(None, "x"))) == "answer"
    assert [host for host, _ in talk.sent] == ["one", "two"]
    assert talk.about(asked(Ask(None, "x"))) == "answer"
    assert [host for host, _ in talk.sent] == ["one", "two", "two"]


def test_if_no_address_can_be_reached_the_error_names_all_reasons() -> None:
    talk = Talk(KnownCluster([ONE, TWO], advice="Start one."), without({ONE: REFUSED, TWO: REFUSED}))
    with pytest.raises(CannotConnectError, match=r"^refused; refused\. Start one\.$"):
        talk.about(asked(Ask(None, "x")))


@pytest.mark.parametrize("failure", [LOST, LATE])
def test_a_request_that_may_have_been_carried_out_is_not_sent_to_another_broker(failure: Exception) -> None:
    talk = Talk(KnownCluster([ONE, TWO]), without({ONE: failure}))
    with pytest.raises(type(failure)):
        talk.about(asked(Ask(None, "x")))
    assert len(talk.sent) == 1


def test_a_broker_that_was_silent_is_asked_last() -> None:
    known = KnownCluster([ONE, TWO])
    with pytest.raises(TimeoutError):
        Talk(known, without({ONE: LATE})).about(asked(Ask(None, "x")))
    assert known.preferred_addresses() == [TWO, ONE]


def test_a_broker_whose_answer_did_not_help_is_asked_after_the_others() -> None:
    """A broker that is cut off from the cluster answers, and knows nothing new."""
    talk = Talk(KnownCluster([ONE]), of_cluster)
    talk.about(refreshed(talk.known, []))
    for _ in range(3):
        talk.known.ask_another()
        talk.about(asked(Ask(None, "x")))
    talk.about(asked(Ask(None, "x")))
    assert [host for host, _ in talk.sent] == ["one", "two", "one", "two", "two"]


def test_a_leader_or_coordinator_that_was_named_and_refuses_is_looked_up_at_another_broker() -> None:
    known = KnownCluster([ONE], remembers_leaders=True)
    talk = Talk(known, of_cluster)
    talk.about(refreshed(known, ["t"]))
    known.forget_leader(T0)
    assert known.preferred_addresses() == [TWO, ONE]
    talk.about(refreshed(known, ["t"]))
    known.forget_coordinator("g")
    assert known.preferred_addresses() == [ONE, TWO]


def test_of_a_single_broker_another_address_is_not_tried() -> None:
    known = KnownCluster([THREE])
    one = MetadataResponse(brokers=[MetadataResponseBroker(1, "one", 1)])
    Talk(known, lambda address, request: one).about(refreshed(known, []))
    known.ask_another()
    assert known.preferred_addresses()[0] == THREE


def test_an_unknown_node_is_looked_up_first() -> None:
    talk = Talk(KnownCluster([THREE]), of_cluster)
    assert talk.about(asked(Ask(2, "x"))) == "answer"
    assert talk.sent == [("three", "MetadataRequest"), ("two", "str")]
    with pytest.raises(KafkaError, match="there is no broker 9") as raised:
        talk.about(asked(Ask(9, "x")))
    assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_each_leader_is_asked_for_its_own_partitions() -> None:
    known = KnownCluster([THREE])
    talk = Talk(known, of_cluster)
    for _ in range(2):
        inquiry = list_offsets(known, {T0: -1, T1: -1}, read_committed=False)
        found = talk.about(inquiry.attempt(inquiry.items, 100))
        assert {each: getattr(answer, "offset", answer) for each, answer in found.items()} == {T0: 1, T1: 2}
    asked_each = [("one", "ListOffsetsRequest"), ("two", "ListOffsetsRequest")]
    assert talk.sent == [("three", "MetadataRequest"), *asked_each, ("one", "MetadataRequest"), *asked_each]


def test_leaders_that_are_remembered_are_asked_at_once_until_they_fail() -> None:
    known = KnownCluster([THREE], remembers_leaders=True)
    talk = Talk(known, of_cluster)
    inquiry = list_offsets(known, {T0: -1, T1: -1}, read_committed=False)
    talk.about(inquiry.attempt(inquiry.items, 100))
    talk.sent.clear()
    talk.answer = without({TWO: LOST})
    with pytest.raises(ConnectionLostError):
        talk.about(inquiry.attempt(inquiry.items, 100))
    assert talk.sent == [("one", "ListOffsetsRequest"), ("two", "ListOffsetsRequest")]
    assert (known.leader_of(T0) is None, known.leader_of(T1) is None) == (False, True)


def test_a_broker_that_answers_for_one_group_is_asked_for_one_after_the_other() -> None:
    def old(address: Address, request: Any) -> Any:
        return FindCoordinatorResponse(node_id=int(request.key))

    known = KnownCluster([ONE], remembers_coordinators=True)
    talk = Talk(known, old)
    assert talk.about(find_coordinators(known, ["4", "7"], 100)) == {"4": 4, "7": 7}
    assert len(talk.sent) == 2
    assert talk.about(find_coordinators(known, ["7"], 100)) == {"7": 7}
    assert len(talk.sent) == 2


def test_a_coordinator_that_has_left_the_cluster_is_looked_up_again() -> None:
    """One broker still names it, another one does not know it any more."""

    def named(address: Address, request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator(key="n", node_id=9)])
        return of_cluster(address, request)

    known = KnownCluster([ONE], remembers_coordinators=True)
    attempt = by_coordinator(
        known, lambda name: name, lambda node_id, part, left_ms: asked(Ask(node_id, "x"))
    )
    found = Talk(known, named).about(attempt({"n": None}, 100))
    assert found["n"].code is ErrorCode.COORDINATOR_NOT_AVAILABLE, "which passes by itself"
    assert known.coordinator_of("n") is None


def test_a_group_and_a_transactional_id_of_one_name_have_coordinators_of_their_own() -> None:
    def answer(address: Address, request: Any) -> Any:
        return FindCoordinatorResponse(coordinators=[Coordinator(key="n", node_id=10 + request.key_type)])

    known = KnownCluster([ONE], remembers_coordinators=True)
    talk = Talk(known, answer)
    assert talk.about(find_coordinators(known, ["n"], 100)) == {"n": 10}
    assert talk.about(find_coordinators(known, ["n"], 100, CoordinatorType.TRANSACTION)) == {"n": 11}
    known.forget_coordinator("n", CoordinatorType.TRANSACTION)
    assert known.coordinator_of("n", CoordinatorType.TRANSACTION) is None
    assert known.coordinator_of("n") == 10


def test_the_newest_feature_levels_count() -> None:
    known = KnownCluster([ONE])
    assert known.feature_level("transaction.version") == 0
    known.learn_features(FinalizedFeatures(5, {"transaction.version": 2}))
    known.learn_features(FinalizedFeatures(4, {"transaction.version": 1}))
    known.learn_features(FinalizedFeatures())
    assert known.feature_level("transaction.version") == 2


def test_metadata_replaces_the_brokers_that_are_known() -> None:
    known = KnownCluster([THREE])
    Talk(known, of_cluster).about(refreshed(known, []))
    assert [known.address_of(node) for node in (1, 2, 3)] == [ONE, TWO, None]
    assert known.node_of(TWO) == 2
