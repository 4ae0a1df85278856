"""Apache Kafka, fetched from Maven Central: the oracle that our broker is compared with.

Nothing of it is kept in the repository. A small pom written into `.cache/` lets Maven, as an ordinary client,
copy the broker, its tools and their dependencies there; the broker then runs as a single KRaft node on
loopback, and each tool as a `java` process of its own. Where Java or Maven or the network is missing,
`CannotFetchError` says so and the tests that need it are skipped with that sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.brokers import HOST, ROOT, BrokerProcess, accepts_connections, await_ready, free_port, spawn

# The newest 4.x of Maven Central when this was written; OTTLA_KAFKA_VERSION names another.
VERSION = os.environ.get("OTTLA_KAFKA_VERSION", "4.3.1")
CACHE = ROOT / ".cache"
HOME = CACHE / f"apache-kafka-{VERSION}"
MAVEN_DEADLINE_SECONDS = 600
TOOL_DEADLINE_SECONDS = 90
CLUSTER_ID = "b3R0bGEtY29tcGF0LTAwMA"  # any 16 bytes in base64url
# What a test needs is small; C1 alone compiles sooner and the JVM starts in half the time.
TEST_HEAP = ("-Xms256m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.compat</groupId><artifactId>apache-kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""

# Tools by the names that Kafka's scripts give them.
TOOLS = {
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
}


class CannotFetchError(Exception):
    """Something beyond PyPI is not to be had on this machine; the message says what and why."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool printed and how it ended."""

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
    jars = HOME / "jars"
    if not jars.is_dir():
        _copy_dependencies(jars)
    return jars


def _copy_dependencies(jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise CannotFetchError("Apache Kafka comes from Maven Central; mvn is not on the PATH")
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "pom.xml").write_text(POM.format(version=VERSION))
    partial = HOME / f"jars.{os.getpid()}"  # renamed when whole, so that an interrupted fetch is no fetch
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(
            command, cwd=HOME, capture_output=True, text=True, timeout=MAVEN_DEADLINE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotFetchError(
            f"Maven did not fetch Apache Kafka {VERSION} in {MAVEN_DEADLINE_SECONDS} s"
        ) from None
    if done.returncode != 0:
        raise CannotFetchError(f"Maven could not fetch Apache Kafka {VERSION}: {done.stdout[-600:]}")
    if not jars.is_dir():
        partial.rename(jars)


def java(main: str, arguments: Sequence[str] = (), *, options: Sequence[str] = TEST_HEAP) -> list[str]:
    """The command line that runs a class of Kafka's, saying on stderr only what is worth a warning."""
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *options, log, "-cp", f"{fetch()}/*", main, *arguments]


def run_tool(
    name: str, *arguments: str, stdin: str | None = None, deadline_seconds: float = TOOL_DEADLINE_SECONDS
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
