"""docs/operations.md, Rolling restarts and upgrades: two versions of Ottla in one cluster, under a producer and a
consumer that miss nothing.

The former version is a commit of this repository: its sources are taken from the history.
"""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.repository import ROOT

import ottla
import ottla.blocking
from ottla.localcluster.broker_process import BrokerProcess, await_ready, spawn
from ottla.localcluster.fleet import broker_command
from ottla.localcluster.launch import claim
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.ports import accepts_connections
from ottla.localcluster.state import ClusterState
from ottla.localcluster.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

FORMER = "31e47c6b"  # transactions, security and the first gateway; without tiers, client metrics and gRPC
TOPIC = "orders"
PARTITIONS = 2
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the former version."""
    archive = subprocess.run(
        ["git", "archive", FORMER, "src"], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    if archive.returncode:
        pytest.skip(f"NO HISTORY: {archive.stderr.decode()[:200]}")
    directory = tmp_path_factory.mktemp("former")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    sources = directory / "src"
    asked = [*with_sources(sources), sys.executable, "-c", "import ottla; print(ottla.__file__)"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
    assert Path(said.strip()).is_relative_to(sources)
    return sources


def with_sources(sources: Path) -> list[str]:
    """The words before a command that runs it with this version."""
    return ["env", f"PYTHONPATH={sources}"]


class Mixed:
    """A cluster whose brokers run one of two versions each."""

    def __init__(self, data: Path, state: ClusterState, stack: ExitStack) -> None:
        self._data = data
        self._state = state
        self._stack = stack
        self._brokers: dict[int, BrokerProcess] = {}
        self.bootstrap = state.bootstrap

    def run(self, node_id: int, sources: Path) -> None:
        """Stop a broker if it runs, and start it with a version."""
        if node_id in self._brokers:
            assert self._brokers[node_id].stop() == 0, self._brokers[node_id].said()
        broker = next(each for each in self._state.brokers if each.node_id == node_id)
        command = [*with_sources(sources), *broker_command(self._data, self._state, broker)]
        place = self._data / f"process-{node_id}"
        output = self._data / f"process-{node_id}.output"
        self._brokers[node_id] = spawn(f"broker {node_id}", command, place, output, broker.port)
        self._stack.callback(self._brokers[node_id].kill)

    def wait_in_sync(self) -> None:
        for broker in self._brokers.values():
            await_ready(broker, lambda: accepts_connections(broker.port))  # noqa: B023
        wait_until(lambda: asyncio.run(self._is_in_sync()), "all replicas are in sync", DEADLINE_S)

    async def _is_in_sync(self) -> bool:
        """Whether every broker takes part, and every replica is in sync."""
        try:
            async with ottla.Admin(self.bootstrap, timeout_ms=5_000) as admin:
                present = (await admin.describe_cluster()).brokers
                found = [
                    each
                    for topic in await admin.list_topics(include_internal=True)
                    for each in topic.partitions
                ]
        except (ConnectionError, TimeoutError, ottla.KafkaError):
            return False
        return len(present) == len(self._brokers) and all(
            each.leader is not None and len(each.isr) == len(each.replicas) for each in found
        )


@contextmanager
def mixed(data: Path, sources: Path) -> Iterator[Mixed]:
    """Three brokers of one version."""
    with claim(data, ClusterOptions(brokers=3, port=0)) as claimed, ExitStack() as stack:
        cluster = Mixed(data, claimed.state, stack)
        for broker in claimed.state.brokers:
            cluster.run(broker.node_id, sources)
        cluster.wait_in_sync()
        yield cluster


class Clients:
    """A producer and a consumer of a group, at work for the length of a block."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[int] = []
        self.consumed: list[int] = []
        self._bootstrap = bootstrap
        self._is_over = Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [Thread(target=self._produce), Thread(target=self._consume)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: bool(self.consumed), "records flow", DEADLINE_S)
            yield
            wait_until(lambda: len(self.acknowledged) > 20, "records were written", DEADLINE_S)
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(DEADLINE_S)
        assert not any(thread.is_alive() for thread in threads)

    def _produce(self) -> None:
        with ottla.blocking.Producer(self._bootstrap) as producer:
            while not self._is_over.is_set():
                number = len(self.acknowledged)
                producer.send(TOPIC, str(number), partition=number % PARTITIONS)
                self.acknowledged.append(number)

    def _consume(self) -> None:
        with ottla.blocking.Consumer(
            self._bootstrap, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not self._is_over.is_set() or len(self.consumed) < len(self.acknowledged):
                self.consumed += [int(each.value or b"") for each in consumer.poll(timeout_ms=200)]


async def pay(bootstrap: str) -> None:
    """A transaction over both partitions."""
    async with ottla.Producer(bootstrap, transactional_id="till") as producer, producer.transaction():
        for partition in range(PARTITIONS):
            await producer.send("payments", "paid", partition=partition)


def test_an_upgrade_broker_by_broker_and_half_way_back_misses_nothing(former: Path, tmp_path: Path) -> None:
    new = ROOT / "src"
    with mixed(tmp_path / "data", former) as cluster:
        clients = Clients(cluster.bootstrap)
        with ottla.blocking.Admin(cluster.bootstrap) as admin:
            configs = {"min.insync.replicas": "2"}
            ottla.succeeded(
                admin.create_topics(
                    [
                        ottla.NewTopic(name, partitions=PARTITIONS, replication_factor=3, configs=configs)
                        for name in (TOPIC, "payments")
                    ]
                )
            )
        with clients.at_work():
            # Two brokers are new, one of them goes back, and then all are new.
            for node_id, sources in ((1, new), (2, new), (1, former), (3, new), (1, new)):
                cluster.run(node_id, sources)
                cluster.wait_in_sync()
                asyncio.run(pay(cluster.bootstrap))
        assert clients.acknowledged == list(range(len(clients.acknowledged)))
        assert Counter(clients.consumed) == Counter(clients.acknowledged)
