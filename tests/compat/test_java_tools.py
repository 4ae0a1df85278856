"""Apache Kafka's own command line tools, unmodified, against the broker (WIRE-1, CTL-7).

The consumer's perf tool is not here: it can only read as a member of a group.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.apache.kafka import ToolResult, fetch, run_tool
from bench.apache.maven import CannotFetchError
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.model import Client, Message
from tests.clients.raw import stored_batches

from ottla.localcluster.broker_process import BrokerProcess

NAMES = itertools.count()


class Tools:
    """The tools, pointed at one broker; each must end well unless the test says otherwise."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, name: str, *arguments: str, stdin: str | None = None, status: int = 0) -> ToolResult:
        result = run_tool(name, *arguments, "--bootstrap-server", self.bootstrap, stdin=stdin)
        assert result.status == status, result.everything
        return result


@pytest.fixture
def tools(broker: BrokerProcess) -> Tools:
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    return Tools(broker.bootstrap)


@pytest.fixture
def reference(broker: BrokerProcess) -> Iterator[Client]:
    client = ConfluentClient(broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(reference: Client) -> str:
    name = f"tools-{next(NAMES)}"
    reference.create_topic(name, 2)
    return name


def test_the_topics_tool_creates_describes_alters_and_deletes(tools: Tools) -> None:
    name = f"tools-made-{next(NAMES)}"
    shape = ("--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=100000000")
    tools.run("topics", "--create", "--topic", name, *shape)
    described = tools.run("topics", "--describe", "--topic", name).stdout
    assert re.search(
        rf"Topic: {name}\s+TopicId: \S{{22}}\s+PartitionCount: 2\s+ReplicationFactor: 1", described
    )
    assert "retention.ms=100000000" in described
    assert re.search(r"Partition: 1\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)
    tools.run("topics", "--alter", "--topic", name, "--partitions", "3")
    assert "PartitionCount: 3" in tools.run("topics", "--describe", "--topic", name).stdout
    assert name in tools.run("topics", "--list").stdout.split()
    tools.run("topics", "--delete", "--topic", name)
    assert name not in tools.run("topics", "--list").stdout.split()


def test_the_topics_tool_says_what_does_not_exist(tools: Tools) -> None:
    result = tools.run("topics", "--describe", "--topic", "no-such-topic", status=1)
    assert "does not exist" in result.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_console_producer_writes_the_console_consumer_reads(
    tools: Tools, broker: BrokerProcess, topic: str, codec: str
) -> None:
    lines = [f"key {n}:value {n} {'ottla ' * 30}" for n in range(50)]
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tools.run(
        "console-producer",
        "--topic",
        topic,
        "--compression-codec",
        codec,
        *keyed,
        stdin="\n".join(lines) + "\n",
    )
    written = {partition: stored_batches(broker.bootstrap, topic, partition) for partition in (0, 1)}
    assert {batch.codec for batches in written.values() for batch in batches} == {codec}
    assert all(
        batch.producer_id >= 0 for batches in written.values() for batch in batches
    )  # idempotent by default
    read: list[str] = []
    for partition, batches in written.items():
        if batches:
            count = sum(batch.records for batch in batches)
            read += consume(tools, topic, partition, "earliest", count)
    assert sorted(read) == sorted(lines)


def consume(tools: Tools, topic: str, partition: int, offset: str, count: int) -> list[str]:
    """Records as the console consumer prints them, `key:value`."""
    where = (
        "--topic",
        topic,
        "--partition",
        str(partition),
        "--offset",
        offset,
        "--max-messages",
        str(count),
    )
    keyed = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    return tools.run("console-consumer", *where, *keyed).stdout.splitlines()


def test_the_console_consumer_starts_at_an_offset(tools: Tools, reference: Client, topic: str) -> None:
    reference.produce(topic, [Message(f"value {n}".encode(), b"k") for n in range(10)])
    assert consume(tools, topic, 0, "7", 3) == ["k:value 7", "k:value 8", "k:value 9"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_perf_tool_writes_everything_it_counts(
    tools: Tools, reference: Client, topic: str, acks: str
) -> None:
    size = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    idempotent = "true" if acks == "all" else "false"
    chosen = ("--command-property", f"acks={acks}", f"enable.idempotence={idempotent}")
    result = tools.run("producer-perf-test", "--topic", topic, *size, *chosen)
    assert "20000 records sent" in result.stdout
    assert sum(reference.list_offset(topic, partition, "latest") for partition in (0, 1)) == 20_000


def test_the_offsets_tool_knows_every_special_time(tools: Tools, reference: Client, topic: str) -> None:
    for n in range(5):
        reference.produce(topic, [Message(str(n).encode())])
    reference.delete_records(topic, 0, 2)
    for time, offset in (("-1", 5), ("latest", 5), ("-2", 2), ("earliest", 2), ("-3", 4), ("-4", 2)):
        answer = tools.run("get-offsets", "--topic-partitions", f"{topic}:0", "--time", time).stdout
        assert answer.strip() == f"{topic}:0:{offset}", f"--time {time}"


def test_the_configs_tool_describes_and_alters_topics_and_brokers(tools: Tools, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tools.run("configs", "--alter", *entity, "--add-config", "retention.ms=5000000,segment.bytes=2097152")
    tools.run("configs", "--alter", *entity, "--delete-config", "segment.bytes")
    described = tools.run("configs", "--describe", *entity).stdout
    assert (
        "retention.ms=5000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000000"
        in described
    )
    assert "segment.bytes" not in described
    everything = tools.run("configs", "--describe", *entity, "--all").stdout
    assert "segment.bytes=1073741824" in everything
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in everything
    broker = tools.run(
        "configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
    ).stdout
    assert "auto.create.topics.enable=true" in broker
    assert "STATIC_BROKER_CONFIG" in broker


def test_the_configs_tool_refuses_what_is_not_a_config(tools: Tools, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    result = tools.run("configs", "--alter", *entity, "--add-config", "no.such.config=1", status=1)
    assert "InvalidConfiguration" in result.everything


def test_the_delete_records_tool_deletes_records(
    tools: Tools, reference: Client, topic: str, tmp_path: Path
) -> None:
    reference.produce(topic, [Message(str(n).encode()) for n in range(10)])
    order = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]}
    (tmp_path / "order.json").write_text(json.dumps(order))
    result = tools.run("delete-records", "--offset-json-file", str(tmp_path / "order.json"))
    assert re.search(rf"partition: {topic}-0\s+low_watermark: 6", result.stdout)


def test_the_log_dirs_tool_weighs_every_partition(tools: Tools, reference: Client, topic: str) -> None:
    reference.produce(topic, [Message(b"x" * 10_000)])
    printed = tools.run("log-dirs", "--describe", "--topic-list", topic).stdout
    answer = json.loads(printed.splitlines()[-1])
    (directory,) = answer["brokers"][0]["logDirs"]
    sizes = {replica["partition"]: replica["size"] for replica in directory["partitions"]}
    assert sizes[f"{topic}-1"] == 0
    assert 10_000 < sizes[f"{topic}-0"] < 11_000


def test_the_api_versions_tool_finds_every_version_usable(tools: Tools) -> None:
    answer = tools.run("broker-api-versions").stdout
    for api in (
        "Produce(0): 0 to 13",
        "Fetch(1): 4 to 18",
        "ListOffsets(2): 1 to 11",
        "Metadata(3): 0 to 13",
    ):
        assert f"{api} [usable: {api.rsplit(' ', 1)[1]}]" in answer


def test_the_cluster_tool_prints_the_cluster_id(tools: Tools) -> None:
    printed = run_tool("cluster", "cluster-id", "--bootstrap-server", tools.bootstrap)
    assert re.fullmatch(r"Cluster ID: \S{22}", printed.stdout.strip())


def test_a_java_producer_writes_in_transactions_of_its_own_epochs(
    tools: Tools, broker: BrokerProcess, reference: Client, topic: str
) -> None:
    size = ("--num-records", "300", "--record-size", "10", "--throughput", "300")
    transactions = ("--transactional-id", f"perf-{topic}", "--transaction-duration-ms", "100")
    result = tools.run("producer-perf-test", "--topic", topic, *size, *transactions)
    assert "300 records sent" in result.stdout
    ends = [reference.list_offset(topic, partition, "latest") for partition in (0, 1)]
    assert sum(ends) > 300, "each transaction has a marker in each of its partitions"
    epochs = {
        batch.producer_epoch for index in (0, 1) for batch in stored_batches(broker.bootstrap, topic, index)
    }
    assert len(epochs) > 1, "each transaction has an epoch of its own"
