"""Clusters whose failover is measured: three Ottla brokers, three Apache Kafka nodes; the same handles on
both.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import messages, wire
from bench.apache.cluster import apache_cluster
from bench.targets import KAFKA_OPTIONS

from ottla.localcluster.launch import running_cluster
from ottla.localcluster.ports import HOST
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.protocol.messages.partitions import ElectLeadersRequest
from ottla.protocol.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumTopicData,
)
from ottla.protocol.messages.topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)

DEADLINE_S: Final = 120.0
# Three heaps of Kafka's default size would not fit every machine; a quarter is plenty for what is measured
# here.
_NODE_OPTIONS: Final = tuple(
    "-Xms256m" if each == "-Xms1G" else "-Xmx512m" if each == "-Xmx1G" else each for each in KAFKA_OPTIONS
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is needed of a cluster, whoever made it."""

    name: str
    ports: dict[int, int]
    kill: Callable[[int], object]
    stop: Callable[[int], object]
    start: Callable[[int], object]
    pids: Callable[[], list[int]]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def topic_at(self, node_id: int, name: str) -> MetadataResponseTopic:
        """What one node says of a topic; OSError if it does not answer."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        with wire.connect(self.ports[node_id]) as connection:
            found: MetadataResponseTopic = messages.ask(connection, 12, request).topics[0]
        return found

    def topic(self, name: str) -> MetadataResponseTopic:
        """What some node says."""
        for node_id in self.ports:
            with contextlib.suppress(OSError):
                return self.topic_at(node_id, name)
        raise AssertionError("no node answers")

    def controller(self) -> int:
        """The leader of the metadata quorum. (Kafka's brokers name any broker as controller in Metadata.)"""
        metadata = DescribeQuorumTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumPartitionData()]
        )
        for port in self.ports.values():
            with contextlib.suppress(OSError), wire.connect(port) as connection:
                answer = messages.ask(connection, 0, DescribeQuorumRequest(topics=[metadata]))
                if answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0:
                    leader: int = answer.topics[0].partitions[0].leader_id
                    return leader
        raise AssertionError("no node knows the controller")

    def create_topic(
        self,
        name: str,
        partitions: int,
        node_id: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        with wire.connect(self.ports[node_id or next(iter(self.ports))]) as connection:
            messages.create_topic(connection, name, partitions, replication_factor=3, settings=settings)

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
        with wire.connect(next(iter(self.ports.values()))) as connection:
            (deleted,) = messages.ask(connection, 6, request).responses
        assert deleted.error_code == 0, f"{deleted.error_code}: {deleted.error_message}"

    def await_in_sync(self, topic: str) -> None:
        """Until every node says that all replicas are in sync and the preferred ones lead, or at least
        somebody.
        """
        self.await_that(lambda: all(self._is_in_sync(node_id, topic) for node_id in self.ports), "in sync")

    def prefer_leaders(self) -> None:
        """Let the first replica of each partition lead, so that leaders are spread as at the beginning."""
        for port in self.ports.values():
            with contextlib.suppress(OSError), wire.connect(port) as connection:
                request = ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000)
                if messages.ask(connection, 2, request).error_code == 0:
                    return
        raise AssertionError(f"{self.name}: nobody elects leaders")

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with contextlib.suppress(OSError):
                if condition():
                    return
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: not {what} in {DEADLINE_S:.0f} s")
            time.sleep(0.05)

    def _is_in_sync(self, node_id: int, name: str) -> bool:
        found = self.topic_at(node_id, name)
        return bool(found.partitions) and all(
            each.leader_id >= 0 and len(each.isr_nodes) == len(each.replica_nodes)
            for each in found.partitions
        )


@contextlib.contextmanager
def ottla(directory: Path) -> Iterator[Cluster]:
    with running_cluster(directory) as cluster:
        ports = {node_id: cluster.port_of(node_id) for node_id in cluster.ids}

        def pids() -> list[int]:
            return [cluster.pid_of(node_id) for node_id in cluster.ids]

        yield Cluster("ottla", ports, cluster.kill, cluster.stop_broker, cluster.start_broker, pids)


@contextlib.contextmanager
def apache(directory: Path, options: Sequence[str] = _NODE_OPTIONS) -> Iterator[Cluster]:
    with apache_cluster(directory, options=options) as cluster:

        def kill(node_id: int) -> None:
            cluster.nodes[node_id].kill()

        def stop(node_id: int) -> None:
            cluster.nodes[node_id].stop()

        def pids() -> list[int]:
            return [node.pid for node in cluster.nodes.values()]

        yield Cluster("apache", dict(cluster.ports), kill, stop, cluster.start, pids)


STARTERS: Final = {"ottla": ottla, "apache": apache}
NAMES: Final[Sequence[str]] = tuple(STARTERS)
