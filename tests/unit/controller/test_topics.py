"""Creating and deleting topics (CTL-7)."""

from collections.abc import Callable
from itertools import chain, repeat
from uuid import UUID

import pytest
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, registration, topic

from ottla.config import BrokerConfig, TopicDefaultsConfig
from ottla.controller.controller import Controller
from ottla.controller.image import ResourceType
from ottla.controller.partitions import MAX_PARTITIONS_PER_COMMAND
from ottla.controller.records import (
    UNFENCE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionRecord,
    TopicRecord,
)
from ottla.errors import ErrorCode
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)


def refusal(cluster: Cluster, wanted: CreatableTopic) -> tuple[ErrorCode, str]:
    decision = cluster.decide(CreateTopicsRequest(topics=[wanted]))
    assert decision.records == []
    (result,) = decision.response.topics
    assert (result.num_partitions, result.replication_factor, result.topic_id) == (-1, -1, ZERO_UUID)
    return ErrorCode(result.error_code), result.error_message


def assigned(name: str, *replica_lists: list[int], indices: list[int] | None = None) -> CreatableTopic:
    numbers = indices or list(range(len(replica_lists)))
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(*item) for item in zip(numbers, replica_lists, strict=True)],
    )


def test_a_created_topic_has_an_id_its_partitions_and_the_settings_in_the_answer() -> None:
    cluster = Cluster()
    (result,) = cluster.create(topic("orders", 3, retention_ms="1000")).topics
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", 5)
    created = cluster.topic("orders")
    assert created.topic_id == result.topic_id != ZERO_UUID
    assert cluster.image.topics_by_id[created.topic_id] is created
    assert [(p.index, p.leader, p.leader_epoch, p.isr) for p in created.partitions] == [
        (0, 1, 0, (1,)),
        (1, 1, 0, (1,)),
        (2, 1, 0, (1,)),
    ]


def test_the_records_of_a_topic_are_topic_then_settings_then_partitions() -> None:
    decision = Cluster().decide(CreateTopicsRequest(topics=[topic("a", 2, retention_ms="1")]))
    kinds = [type(record) for record in decision.records]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]


def test_minus_one_asks_for_the_brokers_defaults() -> None:
    config = BrokerConfig(topics=TopicDefaultsConfig(num_partitions=4, default_replication_factor=2))
    (result,) = Cluster(config, brokers=3).create(topic("a", -1, -1)).topics
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_validating_only_answers_as_if_and_writes_nothing() -> None:
    cluster = Cluster()
    decision = cluster.decide(CreateTopicsRequest(topics=[topic("a", 2), topic("b", 0)], validate_only=True))
    assert decision.records == []
    good, bad = decision.response.topics
    assert (good.error_code, good.num_partitions, good.topic_id) == (0, 2, ZERO_UUID)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a:b"])
def test_a_name_that_could_not_be_a_directory_is_refused(name: str) -> None:
    code, message = refusal(Cluster(), topic(name))
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message.endswith(".")


@pytest.mark.parametrize("name", ["a" * 249, "a.b-c_D9", "...", "-"])
def test_names_within_kafkas_rules_are_allowed(name: str) -> None:
    assert Cluster().create(topic(name)).topics[0].error_code == 0


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    cluster = Cluster()
    cluster.create(topic("a.b"))
    code, message = refusal(cluster, topic("a_b"))
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides with 'a.b'" in message
    first, second = cluster.create(topic("x_y"), topic("x.y")).topics
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_topic_that_exists_is_not_created_again() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    assert refusal(cluster, topic("a"))[0] == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_named_twice_in_a_request_is_refused_once_and_the_others_are_created() -> None:
    cluster = Cluster()
    results = cluster.create(topic("a"), topic("b"), topic("a")).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", 0),
    ]
    assert set(cluster.image.topics_by_name) == {"b"}


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (2**31 - 1, 1, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_numbers_that_cannot_be_are_refused(partitions: int, replicas: int, code: ErrorCode) -> None:
    assert refusal(Cluster(), topic("a", partitions, replicas))[0] == code


def test_one_request_creates_a_bounded_number_of_partitions() -> None:
    cluster = Cluster()
    results = cluster.create(topic("a", MAX_PARTITIONS_PER_COMMAND), topic("b", 1)).topics
    assert [result.error_code for result in results] == [0, ErrorCode.POLICY_VIOLATION]


def test_settings_are_checked_with_a_sentence() -> None:
    code, message = refusal(Cluster(), topic("a", retention_ms="soon"))
    assert code == ErrorCode.INVALID_CONFIG
    assert message == "retention.ms cannot be 'soon': it must be a whole number, at least -1."
    code, message = refusal(Cluster(), topic("a", retentionms="1"))
    assert code == ErrorCode.INVALID_CONFIG
    assert "did you mean 'retention.ms'?" in message
    null = topic("a")
    null.configs = [CreatableTopicConfig("retention.ms", None)]
    assert refusal(Cluster(), null)[0] == ErrorCode.INVALID_CONFIG


def test_replicas_can_be_assigned() -> None:
    cluster = Cluster(brokers=3)
    (result,) = cluster.create(assigned("a", [2, 3], [3, 1])).topics
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert [(p.leader, p.replicas) for p in cluster.topic("a").partitions] == [(2, (2, 3)), (3, (3, 1))]


@pytest.mark.parametrize(
    "wanted",
    [
        assigned("a", []),
        assigned("a", [1, 1]),
        assigned("a", [9]),
        assigned("a", [1], [1, 2]),
        assigned("a", [1], [2], indices=[0, 2]),
        assigned("a", [1], [2], indices=[0, 0]),
    ],
)
def test_an_assignment_that_cannot_be_had_is_refused(wanted: CreatableTopic) -> None:
    assert refusal(Cluster(brokers=2), wanted)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_with_numbers_beside_it_is_refused() -> None:
    for numbers in ({"num_partitions": 1}, {"replication_factor": 1}):
        wanted = assigned("a", [1])
        for name, value in numbers.items():
            setattr(wanted, name, value)
        assert refusal(Cluster(), wanted)[0] == ErrorCode.INVALID_REQUEST


def test_the_metadata_log_cannot_be_created_as_a_topic() -> None:
    assert refusal(Cluster(), topic("__cluster_metadata"))[0] == ErrorCode.INVALID_REQUEST


def test_topics_of_one_partition_go_round_the_brokers() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic("a"), topic("b"))
    cluster.create(topic("c"))
    assert {cluster.topic(name).partitions[0].leader for name in "abc"} == {1, 2, 3}


def test_a_topic_id_is_never_reserved_taken_or_the_look_of_an_option() -> None:
    draws = [
        UUID(int=0),
        UUID(int=1),
        UUID(int=99),
        UUID(int=62 << 122),
        UUID(int=500),
        UUID(int=500),
        UUID(int=501),
    ]
    drawn = iter(chain(draws, repeat(UUID(int=502))))
    next_uuid: Callable[[], UUID] = lambda: next(drawn)  # noqa: E731
    controller = Controller(NODE_ID, CLUSTER_ID, BrokerConfig(), next_uuid)
    for offset, record in enumerate(controller.command(registration(1), 0).records):
        controller.replay(record, offset)
    controller.replay(BrokerRegistrationChangeRecord(1, controller.image.brokers[1].epoch, UNFENCE), 9)
    request = CreateTopicsRequest(topics=[topic("a"), topic("b")])
    results = controller.command(request, 0).response.topics
    assert [result.topic_id.int for result in results] == [500, 501]


def test_topics_are_deleted_by_name_and_by_id() -> None:
    cluster = Cluster()
    cluster.create(topic("a", retention_ms="1"), topic("b"), topic("c"))
    b = cluster.topic("b").topic_id
    response = cluster.commit(DeleteTopicsRequest(topics=[DeleteTopicState("a"), DeleteTopicState(None, b)]))
    assert [(result.name, result.error_code) for result in response.responses] == [("a", 0), ("b", 0)]
    assert all(result.topic_id != ZERO_UUID for result in response.responses)
    assert set(cluster.image.topics_by_name) == {"c"}
    assert cluster.image.config_of(ResourceType.TOPIC, "a") == {}
    assert [item.name for item in cluster.commit(DeleteTopicsRequest(topic_names=["c"])).responses] == ["c"]


def test_a_topic_created_anew_has_a_new_id() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    before = cluster.topic("a").topic_id
    cluster.commit(DeleteTopicsRequest(topic_names=["a"]))
    cluster.create(topic("a"))
    assert cluster.topic("a").topic_id != before
    assert before not in cluster.image.topics_by_id


def test_deleting_what_does_not_exist_tells_names_and_ids_apart() -> None:
    unknown = UUID(int=77 << 64)
    states = [
        DeleteTopicState("x"),
        DeleteTopicState(None, unknown),
        DeleteTopicState(),
        DeleteTopicState("x", unknown),
    ]
    responses = Cluster().commit(DeleteTopicsRequest(topics=states)).responses
    assert [(item.name, item.topic_id, item.error_code) for item in responses] == [
        ("x", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ZERO_UUID, ErrorCode.INVALID_REQUEST),
        ("x", unknown, ErrorCode.INVALID_REQUEST),
    ]


def test_a_topic_that_stands_twice_in_a_deletion_stays() -> None:
    cluster = Cluster()
    cluster.create(topic("a"), topic("b"))
    responses = cluster.commit(DeleteTopicsRequest(topic_names=["a", "a"])).responses
    assert [item.error_code for item in responses] == [ErrorCode.INVALID_REQUEST]
    both = [DeleteTopicState("b"), DeleteTopicState(None, cluster.topic("b").topic_id)]
    responses = cluster.commit(DeleteTopicsRequest(topics=both)).responses
    assert [item.error_code for item in responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert set(cluster.image.topics_by_name) == {"a", "b"}


def test_deletion_can_be_switched_off() -> None:
    cluster = Cluster(BrokerConfig(topics=TopicDefaultsConfig(delete_enable=False)))
    cluster.create(topic("a"))
    (response,) = cluster.commit(DeleteTopicsRequest(topic_names=["a"])).responses
    assert response.error_code == ErrorCode.TOPIC_DELETION_DISABLED
