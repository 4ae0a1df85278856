"""Three Apache Kafka nodes (KRaft, broker and controller in one) on one machine, to compare ours with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.apache.kafka import CLUSTER_ID, TEST_HEAP, java, run_tool
from bench.apache.maven import CannotFetchError

from ottla.localcluster.broker_process import BrokerProcess, await_ready, spawn
from ottla.localcluster.ports import HOST, accepts_connections, free_ports


@dataclass(slots=True)
class ApacheCluster:
    """The nodes by their number; a node that was killed can be started again."""

    directory: Path
    files: dict[int, Path]
    ports: dict[int, int]
    options: Sequence[str]
    nodes: dict[int, BrokerProcess]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def start(self, node_id: int) -> BrokerProcess:
        """Start a node and wait until it listens."""
        return await_ready(self.spawn(node_id), lambda: accepts_connections(self.ports[node_id]))

    def spawn(self, node_id: int) -> BrokerProcess:
        """Start a node's process; alone it cannot become ready, so the first must not be waited for."""
        data, command = (
            self._data(node_id),
            java("kafka.Kafka", [str(self.files[node_id])], options=self.options),
        )
        output = data.with_name(f"{data.name}.output")
        # As `ottla cluster up` starts its brokers: the scheduler may share a busy machine out by sessions.
        self.nodes[node_id] = spawn(
            f"apache-{node_id}", command, data, output, self.ports[node_id], own_session=True
        )
        return self.nodes[node_id]

    def start_all(self) -> None:
        for node_id in self.ports:
            self.spawn(node_id)
        for node_id, node in self.nodes.items():
            await_ready(node, lambda node_id=node_id: accepts_connections(self.ports[node_id]))  # type: ignore[misc]

    def stop_all(self) -> None:
        """Kill them: nobody needs their data any more, and without a majority a polite stop takes minutes."""
        for node in self.nodes.values():
            node.kill()

    def _data(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"


@contextlib.contextmanager
def apache_cluster(
    directory: Path,
    *,
    nodes: int = 3,
    settings: Mapping[str, str] | None = None,
    options: Sequence[str] = TEST_HEAP,
) -> Iterator[ApacheCluster]:
    """A cluster for the length of a block. Raises CannotFetchError where Apache Kafka cannot be had."""
    ids = range(1, nodes + 1)
    found = free_ports(HOST, 2 * nodes)
    ports, controllers = (
        dict(zip(ids, found[:nodes], strict=True)),
        dict(zip(ids, found[nodes:], strict=True)),
    )
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        node_id: _write_properties(directory, node_id, ports[node_id], controllers, settings or {})
        for node_id in ids
    }
    for file in files.values():
        formatted = run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(file))
        if formatted.status != 0:
            raise CannotFetchError(f"Apache Kafka could not format a directory: {formatted.everything}")
    cluster = ApacheCluster(directory, files, ports, options, {})
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def _write_properties(
    directory: Path, node_id: int, port: int, controllers: Mapping[int, int], settings: Mapping[str, str]
) -> Path:
    replicas = str(min(3, len(controllers)))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{each}@{HOST}:{at}" for each, at in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controllers[node_id]}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(directory / f"node-{node_id}"),
        "default.replication.factor": replicas,
        "min.insync.replicas": str(max(1, int(replicas) - 1)),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    file = directory / f"node-{node_id}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return file
