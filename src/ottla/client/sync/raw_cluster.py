"""A cluster as one thread sees it: a connection to each broker that it needs, and who leads what.

The sibling without an event loop of `connections.py` and `topology.py`, for `RangeReader` and `RawAdmin`. Leaders are remembered until
somebody says that they are wrong; connections are opened when first needed, and again when lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ottla.client.requests.metadata import ClusterMetadata, TopicInfo, cluster_metadata, metadata_request
from ottla.client.requests.offsets import ListedOffset, list_offsets_request, listed_offsets
from ottla.client.sync.raw_connection import RawConnection
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address, TopicPartition
from ottla.wire.failures import CannotConnectError


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """Who leads a partition of which topic: one that was deleted and made again has another id."""

    node_id: int
    epoch: int
    topic_id: UUID


class RawCluster:
    """The brokers of one cluster. Used by one thread at a time."""

    def __init__(self, bootstrap: Sequence[Address], *, client_id: str, timeout_ms: int) -> None:
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, RawConnection] = {}
        self._leaders: dict[TopicPartition, PartitionLeader] = {}

    def leader_of(self, partition: TopicPartition) -> PartitionLeader:
        """Raises KafkaError if there is no such partition, or no leader of it at the moment."""
        found = self._leaders.get(partition)
        if found is None:
            topic = self._refreshed([partition.topic]).topics.get(partition.topic)
            if isinstance(topic, KafkaError):
                raise topic
            indexes = {each.index: each for each in topic.partitions} if topic else {}
            info = indexes.get(partition.partition)
            if topic is None or info is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
            if info.leader is None:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"the partition {partition} has no leader at the moment"
                )
            # Of this partition only: others may be read much later, when the topic is another one of the same name.
            found = PartitionLeader(info.leader, info.leader_epoch, topic.topic_id)
            self._leaders[partition] = found
        return found

    def forget(self, partition: TopicPartition) -> None:
        """The leader was a wrong one, or does not answer: the next who asks hears the newest."""
        self._leaders.pop(partition, None)

    def connection_to(self, node_id: int) -> RawConnection:
        """A connection to one broker that can be asked at once."""
        if node_id not in self._addresses:
            self._refreshed([])
        if node_id not in self._addresses:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {node_id} in the cluster")
        return self._connection(self._addresses[node_id])

    def metadata(self, topics: list[str] | None) -> ClusterMetadata:
        """What some broker knows of these topics, or of all (None), and who leads their partitions: that is remembered."""
        metadata = self._refreshed(topics)
        for topic in metadata.topics.values():
            if isinstance(topic, TopicInfo):
                self._learn(topic)
        return metadata

    def ask_any(self, request: Any) -> Any:
        """The answer of the first broker that gives one; CannotConnectError with what each has said if none does."""
        failures: list[str] = []
        for address in dict.fromkeys((*self._addresses.values(), *self._bootstrap)):
            try:
                return self._connection(address).ask(request)
            except (ConnectionError, TimeoutError) as error:
                failures.append(str(error))
        raise CannotConnectError("; ".join(failures))

    def offset_at(self, partition: TopicPartition, spec: int, *, read_committed: bool) -> int:
        """What ListOffsets says: where the log begins (-2) or ends (-1) for a reader. Raises KafkaError."""
        found = self.offsets_at({partition: spec}, read_committed=read_committed)[partition]
        if not isinstance(found, ListedOffset):
            raise found
        return found.offset

    def offsets_at(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """What ListOffsets says of each partition. A leader that refuses or does not answer is forgotten."""
        if unknown := {topic for topic, _ in wanted.keys() - self._leaders.keys()}:
            self.metadata(sorted(unknown))
        outcomes: dict[TopicPartition, ListedOffset | KafkaError] = {}
        parts: dict[int, dict[TopicPartition, int]] = {}
        for partition, spec in wanted.items():
            try:
                parts.setdefault(self.leader_of(partition).node_id, {})[partition] = spec
            except KafkaError as error:
                outcomes[partition] = error
        for node_id, part in parts.items():
            outcomes.update(self._offsets_of(node_id, part, read_committed))
        return outcomes

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _refreshed(self, topics: list[str] | None) -> ClusterMetadata:
        metadata = cluster_metadata(self.ask_any(metadata_request(topics)))
        self._addresses = {broker.node_id: broker.address for broker in metadata.brokers}
        return metadata

    def _offsets_of(
        self, node_id: int, part: Mapping[TopicPartition, int], read_committed: bool
    ) -> Mapping[TopicPartition, ListedOffset | KafkaError]:
        request = list_offsets_request(part, read_committed=read_committed, timeout_ms=self._timeout_ms)
        answers: Mapping[TopicPartition, ListedOffset | KafkaError] = {}
        try:
            answers = listed_offsets(self.connection_to(node_id).ask(request))
        except KafkaError as error:
            answers = dict.fromkeys(part, error)
        finally:
            for partition in part:
                if not isinstance(answers.get(partition), ListedOffset):
                    self.forget(partition)
        return answers

    def _learn(self, topic: TopicInfo) -> None:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.index)
            if each.leader is None:
                self._leaders.pop(partition, None)
            else:
                self._leaders[partition] = PartitionLeader(each.leader, each.leader_epoch, topic.topic_id)

    def _connection(self, address: Address) -> RawConnection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_idle:
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.close()
            connection = RawConnection(address, client_id=self._client_id, timeout_s=self._timeout_ms / 1000)
            self._connections[address] = connection
        return connection
