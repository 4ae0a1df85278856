"""Creating and deleting topics.

CreateTopics, versions 2 to 7: KIP-4, KIP-464 defaults by -1 (v4), KIP-525 the settings in the answer (v5),
KIP-516 topic ids (v7). DeleteTopics, versions 1 to 6: KIP-599, deletion by id (v6). Each topic of a request
is decided by itself, against the image and what the same request decided before it.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from ottla.config import BrokerConfig, ConfigError
from ottla.controller.commands import Charge, free_of_charge
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision, repeated
from ottla.controller.image import ClusterImage, ResourceType, TopicImage
from ottla.controller.partitions import PartitionDraft
from ottla.controller.records import ConfigRecord, RemoveTopicRecord, TopicRecord
from ottla.controller.topic_names import check_topic_name, folded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import BROKER_DEFAULT
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

METADATA_TOPIC: Final = "__cluster_metadata"

# Kafka keeps the first hundred ids for itself: 0 is "no topic", 1 the metadata log, others mark log
# directories.
_FIRST_FREE_ID: Final = 100
# The 6 bits that print as '-': an id that begins with it would look like an option on a command line.
_DASH: Final = 62


def create_topics(
    image: ClusterImage,
    request: CreateTopicsRequest,
    settings: BrokerSettings,
    new_uuid: Callable[[], UUID],
    charge: Charge = free_of_charge,
) -> Decision:
    """Create topics, or only say whether it could be done."""
    creation = _Creation(image, settings, new_uuid, charge)
    names_twice = repeated(topic.name for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if topic.name in names_twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic stands more than once in the request.")
            result = creation.create(topic)
            if request.validate_only:
                result.topic_id = ZERO_UUID
        except KafkaError as error:
            result = CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
        results.append(result)
    return Decision([] if request.validate_only else creation.records, CreateTopicsResponse(topics=results))


class _Creation:
    """The topics that one request creates: what it has decided so far counts for what comes after."""

    def __init__(
        self, image: ClusterImage, settings: BrokerSettings, new_uuid: Callable[[], UUID], charge: Charge
    ) -> None:
        self.records: list[Any] = []
        self._image = image
        self._settings = settings
        self._new_uuid = new_uuid
        self._charge = charge
        self._partitions = PartitionDraft(image)
        self._topic_ids: set[UUID] = set()
        self._folded_names = {folded(name): name for name in image.topics_by_name}

    def create(self, topic: CreatableTopic) -> CreatableTopicResult:
        """Decide on one topic; KafkaError if it cannot be created."""
        self._check_name(topic.name)
        replica_lists = self._replica_lists(topic)
        overrides, configs = self._configs(topic)
        self._charge(len(replica_lists))
        topic_id = self._topic_id()
        self._folded_names[folded(topic.name)] = topic.name
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += [
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=text)
            for name, text in overrides.items()
        ]
        self.records += self._partitions.records(topic_id, replica_lists, first_index=0)
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(replica_lists),
            replication_factor=len(replica_lists[0]),
            configs=configs,
        )

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"'{name}' is the metadata log; it cannot be created."
            )
        if name in self._image.topics_by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"The topic '{name}' exists already.")
        other = self._folded_names.get(folded(name))
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"The topic '{name}' collides with '{other}': metrics could not tell '.' and '_' apart.",
            )

    def _replica_lists(self, topic: CreatableTopic) -> list[list[int]]:
        if topic.assignments:
            return self._assigned(topic)
        if topic.num_partitions != BROKER_DEFAULT and topic.num_partitions <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"A topic cannot have {topic.num_partitions} partitions: give 1 or more, or -1 for the default.",
            )
        if topic.replication_factor != BROKER_DEFAULT and topic.replication_factor <= 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"A partition cannot have {topic.replication_factor} replicas: give 1 or more, or -1 for the default.",
            )
        defaults = self._settings.in_force
        count = (
            defaults.topics.num_partitions if topic.num_partitions == BROKER_DEFAULT else topic.num_partitions
        )
        factor = (
            defaults.topics.default_replication_factor
            if topic.replication_factor == BROKER_DEFAULT
            else topic.replication_factor
        )
        return self._partitions.placed(count, factor)

    def _assigned(self, topic: CreatableTopic) -> list[list[int]]:
        if topic.num_partitions != BROKER_DEFAULT or topic.replication_factor != BROKER_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Where replicas are assigned, the numbers of partitions and of replicas must both be -1.",
            )
        by_index = {item.partition_index: item.broker_ids for item in topic.assignments}
        if len(by_index) != len(topic.assignments) or by_index.keys() != set(range(len(by_index))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "The assigned partitions must be numbered from 0 without gaps, each once.",
            )
        lists = [by_index[index] for index in range(len(by_index))]
        return self._partitions.assigned(lists, len(lists[0]))

    def _configs(self, topic: CreatableTopic) -> tuple[dict[str, str], list[CreatableTopicConfigs]]:
        overrides = {}
        for config in topic.configs:
            if config.value is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{config.name} needs a value.")
            overrides[config.name] = config.value
        try:
            self._settings.check_topic_overrides(overrides)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        shown = [
            CreatableTopicConfigs(name=entry.setting.name, value=entry.value, config_source=entry.source)
            for entry in self._settings.topic_entries(overrides)
        ]
        return overrides, shown

    def _topic_id(self) -> UUID:
        while True:
            topic_id = self._new_uuid()
            taken = topic_id in self._image.topics_by_id or topic_id in self._topic_ids
            if not taken and topic_id.int >= _FIRST_FREE_ID and topic_id.int >> 122 != _DASH:
                self._topic_ids.add(topic_id)
                return topic_id


def delete_topics(
    image: ClusterImage,
    request: DeleteTopicsRequest,
    config: BrokerConfig,
    charge: Charge = free_of_charge,
) -> Decision:
    """Delete topics by name or by id."""
    states = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    found = [_found(image, state) for state in states]
    ids_twice = repeated(topic.topic_id for topic in found if topic is not None)
    states_twice = repeated((state.name, state.topic_id) for state in states)
    records: list[Any] = []
    results = {}
    for state, topic in zip(states, found, strict=True):
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        try:
            twice = (state.name, state.topic_id) in states_twice
            removal = _removal(
                state, topic, twice or (topic is not None and topic.topic_id in ids_twice), config
            )
            if topic is not None:
                charge(len(topic.partitions))
                records.append(removal)
                result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results[state.name, state.topic_id] = result
    return Decision(records, DeleteTopicsResponse(responses=list(results.values())))


def _found(image: ClusterImage, state: DeleteTopicState) -> TopicImage | None:
    if state.topic_id != ZERO_UUID:
        return image.topics_by_id.get(state.topic_id)
    return image.topics_by_name.get(state.name or "")


def _removal(
    state: DeleteTopicState, topic: TopicImage | None, is_repeated: bool, config: BrokerConfig
) -> RemoveTopicRecord:
    by_id = state.topic_id != ZERO_UUID
    if not config.topics.delete_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    if by_id == (state.name is not None):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A topic is deleted by its name or by its id: give one of them."
        )
    if is_repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic stands more than once in the request.")
    if topic is None and by_id:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{state.name}'.")
    return RemoveTopicRecord(topic_id=topic.topic_id)
