"""The controller charges each topic that is about to change with its partitions, once it may change (OPS-4, KIP-599)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.controller.cluster import Cluster

from ottla.controller.commands import Charge, Metered
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)


def purse(content: int, charged: list[int]) -> Charge:
    """Allows charges until its content is used up."""

    def charge(count: int) -> None:
        if sum(charged) >= content:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        charged.append(count)

    return charge


def topic(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(brokers=1)
    made.commit(CreateTopicsRequest(topics=[topic("here", 3), topic("there", 2)]))
    return made


def errors(response: Any) -> dict[str, int]:
    results = getattr(response, "topics", None) or getattr(response, "results", None) or response.responses
    return {each.name: each.error_code for each in results}


def test_topics_are_created_until_the_quota_is_used_up(cluster: Cluster) -> None:
    charged: list[int] = []
    charge = purse(5, charged)
    wanted = [topic("here", 9), topic("a", 4), topic("b", 4), topic("c", 1)]
    response = cluster.commit(Metered(CreateTopicsRequest(topics=wanted), charge))
    assert errors(response) == {
        "here": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a": 0,
        "b": 0,
        "c": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
    assert charged == [4, 4], "a topic that cannot be created costs nothing"
    assert cluster.image.topics_by_name.keys() == {"here", "there", "a", "b"}


def test_topics_grow_until_the_quota_is_used_up(cluster: Cluster) -> None:
    charged: list[int] = []
    charge = purse(2, charged)
    wanted = [CreatePartitionsTopic(name, count, None) for name, count in (("here", 5), ("there", 3))]
    response = cluster.commit(Metered(CreatePartitionsRequest(topics=wanted), charge))
    assert errors(response) == {"here": 0, "there": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert charged == [2]
    assert len(cluster.image.topics_by_name["there"].partitions) == 2


def test_topics_are_deleted_until_the_quota_is_used_up(cluster: Cluster) -> None:
    charged: list[int] = []
    charge = purse(1, charged)
    wanted = [DeleteTopicState(name=name) for name in ("nowhere", "here", "there")]
    response = cluster.commit(Metered(DeleteTopicsRequest(topics=wanted), charge))
    assert errors(response) == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "here": 0,
        "there": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
    assert charged == [3]
    assert cluster.image.topics_by_name.keys() == {"there"}
