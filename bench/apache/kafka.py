"""Apache Kafka as processes: the broker that ours is compared with, and its command line tools.

The jars come from Maven Central (`maven`). The broker runs as a single KRaft node on loopback, and each tool
as a `java` process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.apache.maven import CACHE, CannotFetchError, dependency, fetch_jars

from ottla.localcluster.broker_process import BrokerProcess, await_ready, spawn
from ottla.localcluster.ports import HOST, accepts_connections, free_port

# The newest 4.x of Maven Central when this was written; OTTLA_KAFKA_VERSION names another.
VERSION: Final = os.environ.get("OTTLA_KAFKA_VERSION", "4.3.1")
HOME: Final = CACHE / f"apache-kafka-{VERSION}"
TOOL_DEADLINE_S: Final = 90
CLUSTER_ID: Final = "b3R0bGEtY29tcGF0LTAwMA"  # any 16 bytes in base64url
# Tests need a small heap; C1 alone compiles sooner, and the JVM starts in half the time.
TEST_HEAP: Final = ("-Xms256m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_DEPENDENCIES: Final = (
    dependency("org.apache.kafka", "kafka_2.13", VERSION),
    dependency("org.apache.kafka", "kafka-tools", VERSION),
    dependency("org.slf4j", "slf4j-simple", "1.7.36"),
)

# Tools by the names that Kafka's scripts give them.
TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The output and the exit status of a tool."""

    status: int
    stdout: str
    stderr: str

    @property
    def everything(self) -> str:
        return self.stdout + self.stderr


def fetch() -> Path:
    """The directory of Kafka's jars, fetched on first use."""
    if shutil.which("java") is None:
        raise CannotFetchError("Apache Kafka needs java (17 or newer); it is not on the PATH")
    return fetch_jars(f"Apache Kafka {VERSION}", HOME, _DEPENDENCIES)


def java(main: str, arguments: Sequence[str] = (), *, options: Sequence[str] = TEST_HEAP) -> list[str]:
    """The command line that runs a class of Kafka's, with warnings and errors only on stderr."""
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *options, log, "-cp", f"{fetch()}/*", main, *arguments]


def run_tool(
    name: str, *arguments: str, stdin: str | None = None, deadline_seconds: float = TOOL_DEADLINE_S
) -> ToolResult:
    """Run one of Kafka's command line tools to its end."""
    done = subprocess.run(
        java(TOOLS[name], arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=deadline_seconds,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout, done.stderr)


def start_apache_kafka(
    data: Path,
    settings: Mapping[str, str] | None = None,
    *,
    port: int = 0,
    options: Sequence[str] = TEST_HEAP,
) -> BrokerProcess:
    """A single KRaft node, broker and controller in one, on loopback; formats the directory on first use."""
    port = port or free_port()
    file = write_properties(data, port, settings or {})
    if not (data / "meta.properties").exists():
        formatted = run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(file))
        if formatted.status != 0:
            raise CannotFetchError(f"Apache Kafka could not format {data}: {formatted.everything}")
    command = java("kafka.Kafka", [str(file)], options=options)
    broker = spawn("apache", command, data, data.with_name(data.name + ".output"), port)
    return await_ready(broker, lambda: accepts_connections(port))


def write_properties(data: Path, port: int, settings: Mapping[str, str]) -> Path:
    """The broker's settings file, beside its data."""
    file = data.with_name(data.name + ".properties")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}={value}\n" for name, value in _properties(data, port, settings).items()]
    file.write_text("".join(lines))
    return file


def _properties(data: Path, port: int, settings: Mapping[str, str]) -> dict[str, str]:
    controller = free_port()
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
