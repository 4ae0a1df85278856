"""Local clusters for tests, with questions to each of their brokers."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.integration.login_steps import authenticate, handshake
from tests.integration.peer import Peer
from tests.integration.tls_place import TlsPeer

from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.launch import running_cluster
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.security.sasl.scram import SCRAM_MECHANISMS
from ottla.security.sasl.scram_client import ScramClient
from ottla.security.settings import Security

START_DEADLINE_S = 60.0
METADATA_VERSION = 12


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as the broker that knows most of it described it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ObservedCluster(LocalCluster):
    """A local cluster whose brokers are asked one by one."""

    @contextlib.contextmanager
    def peer(self, node_id: int) -> Iterator[Peer]:
        port = self.port_of(node_id)
        with Peer(port) if not self.state.is_secure else logged_in(port, self.security) as connected:
            yield connected

    def metadata_from(self, node_id: int, *topics: str) -> MetadataResponse:
        """One broker's metadata, of these topics or of all."""
        wanted = [MetadataRequestTopic(name=name) for name in topics] if topics else None
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        with self.peer(node_id) as peer:
            answer: MetadataResponse = peer.ask(ApiKey.METADATA, METADATA_VERSION, request)
        return answer

    def metadata(self, *topics: str) -> list[MetadataResponse]:
        """The metadata of each broker that answers."""
        answers = []
        for node_id in self.running:
            with contextlib.suppress(OSError):
                answers.append(self.metadata_from(node_id, *topics))
        return answers

    def controller(self) -> int:
        """The node that most brokers take for the controller; -1 if they know none."""
        named = Counter(answer.controller_id for answer in self.metadata() if answer.controller_id >= 0)
        return named.most_common(1)[0][0] if named else -1

    def partitions(self, topic: str) -> dict[int, PartitionView]:
        """Each partition by the newest word on it."""
        views: dict[int, PartitionView] = {}
        for answer in self.metadata(topic):
            for each in answer.topics[0].partitions:
                known = views.get(each.partition_index)
                if known is None or each.leader_epoch >= known.leader_epoch:
                    views[each.partition_index] = PartitionView(
                        each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
                    )
        return views

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader, once there is one."""
        found: list[int] = []

        def is_led() -> bool:
            view = self.partitions(topic).get(partition)
            found[:] = [view.leader] if view else []
            return view is not None and view.leader >= 0

        wait_until(is_led, f"{topic}-{partition} has a leader", START_DEADLINE_S)
        return found[0]

    def is_in_sync(self, topic: str) -> bool:
        """Whether every broker says that every partition has a leader and all its replicas in sync."""
        answers = self.metadata(topic)
        return len(answers) == len(self.ids) and all(
            answer.topics[0].partitions
            and all(
                each.leader_id >= 0 and len(each.isr_nodes) == len(each.replica_nodes)
                for each in answer.topics[0].partitions
            )
            for answer in answers
        )

    def await_in_sync(self, topic: str, deadline_s: float = 60.0) -> float:
        """Wait until it is so; answers how many seconds that took."""
        begun = time.monotonic()
        try:
            wait_until(lambda: self.is_in_sync(topic), f"all replicas of {topic} are in sync", deadline_s)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self._words(topic)}") from None
        return time.monotonic() - begun

    def _words(self, topic: str) -> str:
        """What there is, for somebody who looks for a fault."""
        lines = [f"broker {each.node_id} is {each.condition}" for each in self.state.brokers]
        for node_id in self.running:
            found = self.metadata_from(node_id, topic).topics[0]
            views = [
                f"{each.partition_index}: led by {each.leader_id} in epoch {each.leader_epoch}, in sync {each.isr_nodes}"
                for each in found.partitions
            ]
            lines.append(f"broker {node_id} says: error {found.error_code}; {'; '.join(views)}")
        return "\n".join(lines)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 3,
        *,
        replicas: Sequence[int] = (),
        **settings: str | int,
    ) -> None:
        """Create a topic (settings with _ for each dot), and wait until every broker knows it and its
        leaders.

        With `replicas` it has one partition, held by these brokers.
        """
        configs = [
            CreatableTopicConfig(name=setting.replace("_", "."), value=str(value))
            for setting, value in settings.items()
        ]
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if replicas else partitions,
            replication_factor=-1 if replicas else replication_factor,
            assignments=[CreatableReplicaAssignment(0, list(replicas))] if replicas else [],
            configs=configs,
        )
        with self.peer(self.running[0]) as peer:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            (created,) = peer.ask(ApiKey.CREATE_TOPICS, 7, request).topics
        assert created.error_code == 0, f"{created.error_code}: {created.error_message}"
        self.await_in_sync(name)


def logged_in(port: int, security: Security) -> Peer:
    """A peer of a listener with TLS and logins, as a user with a password."""
    mechanism, user, password = security.sasl_mechanism, security.username, security.password
    assert mechanism in SCRAM_MECHANISMS
    assert user is not None
    assert password is not None
    peer = TlsPeer(port, security)
    try:
        assert handshake(peer, mechanism).error_code == 0
        client = ScramClient(SCRAM_MECHANISMS[mechanism], user, password, uuid4().hex)
        final = client.respond(bytes(authenticate(peer, client.first()).auth_bytes))
        if final is None or authenticate(peer, final).error_code:
            raise PermissionError(f"{user} is refused")
    except BaseException:
        peer.__exit__(None, None, None)
        raise
    return peer


@contextlib.contextmanager
def observed_cluster(data: Path, **options: Any) -> Iterator[ObservedCluster]:
    """A cluster for the length of a block, with `ClusterOptions`; its brokers' output is shown if the block
    fails.
    """
    with running_cluster(data, ClusterOptions(port=0, **options)):
        cluster = ObservedCluster(data)
        try:
            yield cluster
        except BaseException:
            _show(cluster)
            raise


def _show(cluster: ObservedCluster, lines: int = 40) -> None:
    print(cluster.said())
    for node_id in cluster.ids:
        said = cluster.broker_said(node_id).splitlines()[-lines:]
        print(f"---- broker {node_id}", *said, sep="\n")


def eventually(condition: Callable[[], bool], what: str, deadline_s: float = 20.0) -> None:
    """Wait for a condition whose question may fail meanwhile: brokers come and go."""

    def holds() -> bool:
        with contextlib.suppress(OSError):
            return condition()
        return False

    wait_until(holds, what, deadline_s)
