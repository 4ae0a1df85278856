"""Descriptions of the cluster (CTL-6)."""

from uuid import UUID

import pytest
from tests.unit.controller.cluster import CLUSTER_ID, Cluster, topic, topic_on

from ottla.controller.describe.cluster import (
    MetadataAnswer,
    describe_cluster,
    describe_topic_partitions,
    metadata_response,
)
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.codec import ZERO_UUID, encode
from ottla.protocol.messages.brokers import UnregisterBrokerRequest
from ottla.protocol.messages.cluster import (
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

NOT_ASKED = -(2**31)


def metadata(
    cluster: Cluster, request: MetadataRequest, version: int = 13, auto_create: bool = True
) -> MetadataAnswer:
    answer = metadata_response(
        cluster.image,
        request,
        version,
        listener_name="PLAINTEXT",
        controller_id=1,
        auto_create=auto_create,
    )
    encode(answer.response, version)  # whatever is answered fits into the version that asked
    return answer


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def test_metadata_names_the_cluster_its_brokers_and_its_partitions() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("a", 2, 2))
    response, to_create = metadata(cluster, MetadataRequest(topics=named("a")))
    assert to_create == []
    assert (response.cluster_id, response.controller_id, response.error_code) == (CLUSTER_ID, 1, 0)
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host1", 9092, None),
        (2, "host2", 9092, None),
    ]
    (found,) = response.topics
    assert (found.error_code, found.name, found.is_internal) == (0, "a", False)
    assert found.topic_id == cluster.topic("a").topic_id
    assert found.topic_authorized_operations == NOT_ASKED
    assert [(p.partition_index, p.leader_id, p.leader_epoch, p.error_code) for p in found.partitions] == [
        (0, 1, 0, 0),
        (1, 2, 0, 0),
    ]
    assert found.partitions[0].replica_nodes == found.partitions[0].isr_nodes == [1, 2]
    assert found.partitions[0].offline_replicas == []


@pytest.mark.parametrize(
    ("version", "topics", "count"), [(0, [], 2), (1, [], 0), (1, None, 2), (13, [], 0), (13, None, 2)]
)
def test_all_topics_are_an_empty_list_in_version_0_and_null_later(
    version: int, topics: list[MetadataRequestTopic] | None, count: int
) -> None:
    cluster = Cluster()
    cluster.create(topic("a"), topic("b"))
    assert len(metadata(cluster, MetadataRequest(topics=topics), version).response.topics) == count


def test_a_missing_topic_is_unknown_and_left_to_the_caller_to_create() -> None:
    response, to_create = metadata(Cluster(), MetadataRequest(topics=named("new", "a b", "new")))
    assert [(item.name, item.error_code, item.topic_id) for item in response.topics] == [
        ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ZERO_UUID),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, ZERO_UUID),
    ]
    assert to_create == ["new"]


def test_no_topic_is_created_unless_both_client_and_broker_allow_it_nor_an_internal_one() -> None:
    unwilling = MetadataRequest(topics=named("new"), allow_auto_topic_creation=False)
    assert metadata(Cluster(), unwilling).to_create == []
    assert metadata(Cluster(), MetadataRequest(topics=named("new")), auto_create=False).to_create == []
    answer = metadata(Cluster(), MetadataRequest(topics=named("__consumer_offsets")))
    assert answer.to_create == []
    assert answer.response.topics[0].is_internal


def test_topics_are_found_by_id_and_an_unknown_id_is_told_apart() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    known, unknown = cluster.topic("a").topic_id, UUID(int=5 << 90)
    wanted = [
        MetadataRequestTopic(known, None),
        MetadataRequestTopic(unknown, None),
        MetadataRequestTopic(name=None),
    ]
    response, to_create = metadata(cluster, MetadataRequest(topics=wanted), 12)
    assert [(item.name, item.topic_id, item.error_code) for item in response.topics] == [
        ("a", known, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ZERO_UUID, ErrorCode.INVALID_REQUEST),
    ]
    assert to_create == []


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_in_a_version_that_only_answers_ids_is_an_invalid_request(version: int) -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    wanted = [MetadataRequestTopic(cluster.topic("a").topic_id, None), MetadataRequestTopic(name="a")]
    response, _ = metadata(cluster, MetadataRequest(topics=wanted), version)
    assert [item.error_code for item in response.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_operations_are_listed_when_asked_for() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    request = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    response, _ = metadata(cluster, request, 10)
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000


@pytest.mark.parametrize("version", range(14))
def test_every_version_can_be_answered(version: int) -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    assert metadata(cluster, MetadataRequest(topics=named("a", "b")), version).response.topics


def standings(cluster: Cluster, name: str) -> list[tuple[int, int, list[int], list[int]]]:
    """Error, leader, ISR and offline replicas of a topic's partitions, in both descriptions the same."""
    response, _ = metadata(cluster, MetadataRequest(topics=named(name)))
    described = partitions(cluster, name).topics[0].partitions
    shown = response.topics[0].partitions
    for one, other in zip(shown, described, strict=True):
        assert (one.error_code, one.leader_id, one.leader_epoch) == (
            other.error_code,
            other.leader_id,
            other.leader_epoch,
        )
        assert (one.isr_nodes, one.offline_replicas) == (other.isr_nodes, other.offline_replicas)
    return [(each.error_code, each.leader_id, each.isr_nodes, each.offline_replicas) for each in shown]


def test_a_fenced_broker_is_not_listed_and_its_replicas_are_offline() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2], [2, 1]), topic_on("lone", [2]))
    cluster.fence(2)
    response, _ = metadata(cluster, MetadataRequest(topics=None))
    assert [broker.node_id for broker in response.brokers] == [1]
    assert standings(cluster, "a") == [(0, 1, [1], [2]), (0, 1, [1], [2])]
    assert standings(cluster, "lone") == [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [2], [2])]


def test_a_leader_that_is_about_to_return_is_not_shown_yet() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("lone", [2]))
    cluster.restart(2, clean=True)
    assert standings(cluster, "lone") == [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [2], [2])]
    cluster.heartbeat(2)
    assert standings(cluster, "lone") == [(0, 2, [2], [])]


def test_replicas_on_a_broker_that_was_unregistered_are_offline() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2]))
    cluster.fence(2)
    cluster.commit(UnregisterBrokerRequest(2))
    assert standings(cluster, "a") == [(0, 1, [1], [2])]


def test_a_leader_that_does_not_listen_where_the_client_asks_is_named_so() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    answer = metadata_response(
        cluster.image,
        MetadataRequest(topics=None),
        13,
        listener_name="OTHER",
        controller_id=1,
        auto_create=False,
    )
    assert answer.response.topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND


def test_describe_cluster_lists_brokers_and_on_request_fenced_ones() -> None:
    cluster = Cluster(brokers=2)
    cluster.fence(2)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = describe_cluster(cluster.image, request, listener_name="PLAINTEXT", controller_id=1)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, CLUSTER_ID, 1)
    assert [broker.broker_id for broker in response.brokers] == [1]
    assert response.cluster_authorized_operations > 0
    request = DescribeClusterRequest(include_fenced_brokers=True)
    response = describe_cluster(cluster.image, request, listener_name="PLAINTEXT", controller_id=1)
    assert [(broker.broker_id, broker.is_fenced) for broker in response.brokers] == [(1, False), (2, True)]
    assert response.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_describe_cluster_answers_for_brokers_only(endpoint_type: int, code: ErrorCode) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = describe_cluster(Cluster().image, request, listener_name="PLAINTEXT", controller_id=1)
    assert (response.error_code, response.error_message) == (code, code.message)


def partitions(
    cluster: Cluster, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
    response = describe_topic_partitions(cluster.image, request, listener_name="PLAINTEXT", limit=5)
    encode(response, 0)
    return response


def walked(cluster: Cluster, limit: int) -> list[tuple[str | None, int]]:
    found = []
    cursor = None
    while True:
        response = partitions(cluster, limit=limit, cursor=cursor)
        assert sum(len(item.partitions) for item in response.topics) <= limit
        found += [(item.name, part.partition_index) for item in response.topics for part in item.partitions]
        cursor = response.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_a_cursor_walks_over_every_partition_once(limit: int) -> None:
    cluster = Cluster()
    cluster.create(topic("b", 3), topic("a", 2), topic("c", 4))
    expected = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1), ("c", 2), ("c", 3)]
    assert walked(cluster, limit) == expected


def test_eligible_leaders_and_the_last_leader_are_described() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2], min_insync_replicas="2"))
    cluster.fence(2)
    (found,) = partitions(cluster, "a").topics[0].partitions
    assert (found.leader_id, found.isr_nodes) == (1, [1])
    assert (found.eligible_leader_replicas, found.last_known_elr) == ([2], [])
    cluster.restart(2, clean=False)
    cluster.restart(1, clean=False)
    (found,) = partitions(cluster, "a").topics[0].partitions
    assert (found.leader_id, found.isr_nodes) == (NO_LEADER, [])
    assert (found.eligible_leader_replicas, found.last_known_elr) == ([], [1])


def test_partitions_of_named_topics_are_described_up_to_the_brokers_own_limit() -> None:
    cluster = Cluster()
    cluster.create(topic("a", 9))
    response = partitions(cluster, "zzz", "a", "b/d")
    assert [(item.name, item.error_code, len(item.partitions)) for item in response.topics] == [("a", 0, 5)]
    assert response.next_cursor == Cursor("a", 5)
    response = partitions(cluster, "zzz", "a", "b/d", cursor=response.next_cursor)
    assert [(item.name, item.error_code, len(item.partitions)) for item in response.topics] == [
        ("a", 0, 4),
        ("b/d", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]
    assert response.next_cursor is None


def test_a_cursor_at_a_topic_that_is_gone_goes_on_with_the_next() -> None:
    cluster = Cluster()
    cluster.create(topic("a", 2), topic("c", 2))
    response = partitions(cluster, cursor=Cursor("b", 7))
    assert [(item.name, len(item.partitions)) for item in response.topics] == [("c", 2)]


def test_a_cursor_before_the_first_partition_is_refused() -> None:
    response = partitions(Cluster(), "a", cursor=Cursor("a", -1))
    assert [item.error_code for item in response.topics] == [ErrorCode.INVALID_REQUEST]
