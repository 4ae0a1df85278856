"""Several brokers that form a cluster, inside the process of a test; each can be stopped, killed and started
again.

    with ottla.testing.cluster(3) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.kill(cluster.leader_of("orders"))

All of them vote. With three, one may be gone; what is acknowledged by all in-sync replicas stays.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.client.calls import arguments
from ottla.controller.image import PartitionImage
from ottla.security.settings import SaslMechanism, Security
from ottla.testing.embedded_broker import HOST, EmbeddedBroker, broker_settings
from ottla.testing.users import Users

if TYPE_CHECKING:
    from ottla.client.fetching.plan.record_batch import ConsumerRecord

T = TypeVar("T")

_DEADLINE_S: Final = 30.0
_MOST_REPLICAS: Final = 3
_MOST_BROKERS: Final = 32  # all of them run in one process
# A broker that is gone is noticed by its connections; these are for those that are only silent.
_QUICK: Final = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "broker.session.timeout.ms": "1500",
}


class EmbeddedCluster:
    """Runs from `start`, or the beginning of `with`, to its end. `brokers` are its brokers by node id, from
    1.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
    ) -> None:
        self._users = Users(users, tls=tls)
        arguments.whole_number("brokers", brokers, 1, _MOST_BROKERS)
        ports = dict(enumerate(_free_ports(brokers), 1))
        replicas = min(brokers, _MOST_REPLICAS)
        shared = {
            **_QUICK,
            "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in ports.items()),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            **broker_settings(settings),
        }
        self.brokers = {
            node: EmbeddedBroker(settings={**shared, "node.id": node}, port=port, users=self._users)
            for node, port in ports.items()
        }

    def __enter__(self) -> EmbeddedCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> EmbeddedCluster:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def start(self, *node_ids: int) -> None:
        """Start these brokers, or all that do not run, and return when clients can come to them."""
        chosen = [self.brokers[each] for each in node_ids] or list(self.brokers.values())
        with ThreadPoolExecutor(len(chosen)) as threads:
            starts = [threads.submit(broker.start) for broker in chosen]
            done, _ = wait(starts, return_when=FIRST_EXCEPTION)
            failure = next((failed for each in done if (failed := each.exception())), None)
            if failure is not None:
                for broker in chosen:  # they would wait for the one that cannot come
                    broker.kill()
                raise failure

    def stop(self, node_id: int) -> None:
        """Stop a broker as one that is asked to: it hands over what it leads first."""
        self.brokers[node_id].stop()

    def kill(self, node_id: int) -> None:
        """End a broker as a process that is killed."""
        self.brokers[node_id].kill()

    def close(self) -> None:
        """End all brokers and remove their data."""
        for broker in self.brokers.values():
            broker.kill()
        for broker in self.brokers.values():
            broker.close()

    @property
    def bootstrap(self) -> str:
        """The addresses for clients, of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def security(self, user: str | None = None, mechanism: SaslMechanism = "SCRAM-SHA-256") -> Security:
        """How a client of one of its `users` reaches it: the argument `security` of Ottla's clients."""
        return self._users.security(user, mechanism)

    @property
    def running(self) -> list[int]:
        """The brokers that run."""
        return [node for node, broker in self.brokers.items() if broker.is_running]

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, wait until each partition has a leader and all its replicas, and answer its
        name.
        """
        self._any().create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        self.wait_in_sync(name)
        return name

    def records(self, topic: str) -> list[ConsumerRecord]:
        """Every record of a topic, partition after partition, as readers see it now."""
        return self._any().records(topic)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; waits for one that runs."""

        def leader() -> int | None:
            found = dict(enumerate(self._partitions(topic))).get(partition)
            return found.leader if found is not None and found.leader in self.running else None

        return _eventually(leader, f"{topic}-{partition} has a leader")

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync."""

        def in_sync() -> bool | None:
            partitions = self._partitions(topic)
            is_so = bool(partitions) and all(set(each.isr) == set(each.replicas) for each in partitions)
            return is_so or None

        _eventually(in_sync, f"all replicas of {topic} are in sync")

    @property
    def controller_id(self) -> int:
        """The broker that decides for the cluster; waits for one that runs."""

        def controller() -> int | None:
            return next((node for node in self.running if self._is_controller(node)), None)

        return _eventually(controller, "there is a controller")

    def _is_controller(self, node_id: int) -> bool:
        return self.brokers[node_id].look(lambda broker: broker.quorum.is_controller)

    def _any(self) -> EmbeddedBroker:
        if not self.running:
            raise RuntimeError("no broker of the cluster is running: use it in `with`, or start some")
        return self.brokers[self.running[0]]

    def _partitions(self, topic: str) -> tuple[PartitionImage, ...]:
        """The partitions of a topic as a broker that runs knows them."""
        known = self._any().look(lambda broker: broker.quorum.image.topics_by_name.get(topic))
        return () if known is None else known.partitions


def _eventually(question: Callable[[], T | None], what: str) -> T:
    """Ask until there is an answer."""
    deadline = time.monotonic() + _DEADLINE_S
    while (answer := question()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_DEADLINE_S:.0f} s: {what}")
        time.sleep(0.005)
    return answer


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
