"""Adding partitions: to a new topic or to one that exists, placed by the controller or where the request
says.

CreatePartitions (KIP-195), versions 0 to 3.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from ottla.controller.commands import Charge, free_of_charge
from ottla.controller.decision import Decision, repeated
from ottla.controller.image import ClusterImage, TopicImage
from ottla.controller.placement import candidates, load_of, place
from ottla.controller.records import PartitionRecord
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

# One command is one batch of the metadata log, replayed at one go; Kafka has the same limit.
MAX_PARTITIONS_PER_COMMAND: Final = 10_000


class PartitionDraft:
    """The partitions that one command has decided on so far."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._live = image.eligible_brokers
        self._load = load_of(image)
        self._count = 0

    def placed(self, count: int, replication_factor: int) -> list[list[int]]:
        """Replicas for `count` new partitions, spread over racks and live brokers."""
        self._check_count(count)
        if replication_factor > len(self._live):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{replication_factor} replicas need as many brokers; {len(self._live)} can take one now.",
            )
        brokers = candidates(self._image.brokers[node_id] for node_id in self._live)
        return place(brokers, count, replication_factor, self._load)

    def assigned(self, replica_lists: Sequence[list[int]], replication_factor: int) -> list[list[int]]:
        """The replicas that a request asks for, if they can be had."""
        self._check_count(len(replica_lists))
        for replicas in replica_lists:
            self._check_assignment(replicas, replication_factor)
        return list(replica_lists)

    def records(self, topic_id: UUID, replica_lists: Sequence[list[int]], first_index: int) -> list[Any]:
        """The partitions as records: the first live replica leads."""
        self._count += len(replica_lists)
        records = []
        for index, replicas in enumerate(replica_lists, first_index):
            self._load.add(replicas)
            isr = [node_id for node_id in replicas if node_id in self._live]
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=isr,
                    leader=isr[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[self._image.brokers[node_id].directory for node_id in replicas],
                )
            )
        return records

    def _check_count(self, count: int) -> None:
        if self._count + count > MAX_PARTITIONS_PER_COMMAND:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"One request can create {MAX_PARTITIONS_PER_COMMAND} partitions; use several requests for more.",
            )

    def _check_assignment(self, replicas: list[int], replication_factor: int) -> None:
        unknown = [node_id for node_id in replicas if node_id not in self._image.brokers]
        if not replicas:
            raise _bad_assignment("A partition needs at least one replica.")
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(f"A broker stands twice in the assignment {replicas}.")
        if unknown:
            raise _bad_assignment(f"No broker {unknown[0]} is registered.")
        if len(replicas) != replication_factor:
            raise _bad_assignment(
                f"All partitions of a topic have the same number of replicas: {replicas} has {len(replicas)}, "
                f"others have {replication_factor}."
            )
        if self._live.isdisjoint(replicas):
            raise _bad_assignment(f"None of the brokers {replicas} can lead now.")


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, charge: Charge = free_of_charge
) -> Decision:
    """Grow topics; each is decided by itself."""
    draft = PartitionDraft(image)
    names_twice = repeated(topic.name for topic in request.topics)
    records: list[Any] = []
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if topic.name in names_twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic stands more than once in the request.")
            added = _grown(image, draft, topic)
            charge(len(added))
            records += added
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _grown(image: ClusterImage, draft: PartitionDraft, wanted: CreatePartitionsTopic) -> list[Any]:
    topic = image.topics_by_name.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{wanted.name}'.")
    added = _added_count(topic, wanted.count)
    replication_factor = len(topic.partitions[0].target_replicas)
    if wanted.assignments is None:
        return draft.records(topic.topic_id, draft.placed(added, replication_factor), len(topic.partitions))
    if len(wanted.assignments) != added:
        raise _bad_assignment(
            f"{added} partitions are to be added, but {len(wanted.assignments)} are assigned to brokers."
        )
    lists = [assignment.broker_ids for assignment in wanted.assignments]
    return draft.records(topic.topic_id, draft.assigned(lists, replication_factor), len(topic.partitions))


def _added_count(topic: TopicImage, wanted_count: int) -> int:
    now = len(topic.partitions)
    if wanted_count == now:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"The topic '{topic.name}' has {now} partitions already."
        )
    if wanted_count < now:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic '{topic.name}' has {now} partitions; {wanted_count} would be fewer, "
            "and partitions can only be added.",
        )
    return wanted_count - now


def _bad_assignment(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
