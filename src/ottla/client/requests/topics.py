"""Creating, deleting and growing topics, as an administrator does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import outcome
from ottla.errors import KafkaError
from ottla.model import BROKER_DEFAULT
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Values that are left out are the broker's defaults; `assignments` (partition → brokers) fixes partitions
    and replicas.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments.text("name", self.name)
        arguments.whole_number("partitions", self.partitions, BROKER_DEFAULT, arguments.MOST_INT32)
        arguments.whole_number(
            "replication_factor", self.replication_factor, BROKER_DEFAULT, arguments.MOST_INT16
        )
        arguments.by_name("configs", self.configs, arguments.text)
        arguments.by_number("assignments", self.assignments, arguments.numbers)


def new_topics(name: str, topics: object) -> dict[str, NewTopic]:
    """Topics to create, by name. Raises TypeError and ValueError."""
    given = arguments.items(name, topics, NewTopic, 'NewTopic("topic")')
    by_name = {topic.name: topic for topic in given}
    if len(by_name) < len(given):
        twice = next(each.name for each in given if by_name[each.name] is not each)
        raise ValueError(f'{name} has "{twice}" twice')
    return by_name


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the broker made it."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


def brokers_share_ms(timeout_ms: int) -> int:
    """How long a broker may wait, so that its answer, which says what it waited for, comes before the time is over."""
    return max(1, timeout_ms * 9 // 10)


def create_topics_request(
    topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=brokers_share_ms(timeout_ms),
        validate_only=validate_only,
    )


def created_topics(response: CreateTopicsResponse) -> dict[str, CreatedTopic | KafkaError]:
    return {
        each.name: outcome(
            each.error_code,
            CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor),
            each.error_message,
        )
        for each in response.topics
    }


def delete_topics_request(names: Sequence[str], timeout_ms: int) -> DeleteTopicsRequest:
    # Version 6 reads the first list, older versions the second.
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=brokers_share_ms(timeout_ms),
    )


def deleted_topics(response: DeleteTopicsResponse) -> dict[str, KafkaError | None]:
    return {
        each.name or "": outcome(each.error_code, None, each.error_message) for each in response.responses
    }


def create_partitions_request(
    counts: Mapping[str, int], timeout_ms: int, validate_only: bool
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()
        ],
        timeout_ms=brokers_share_ms(timeout_ms),
        validate_only=validate_only,
    )


def grown_topics(response: CreatePartitionsResponse) -> dict[str, KafkaError | None]:
    return {each.name: outcome(each.error_code, None, each.error_message) for each in response.results}


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
