"""Apache Kafka's kafka-transactions on Ottla, and `ottla transactions` on Apache Kafka: both see the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from bench.apache.kafka import run_tool
from click.testing import CliRunner
from confluent_kafka import Producer
from tests.conftest import start
from tests.integration.peer import Peer, batch, create_topic, list_offset, now_ms, produce

from ottla.cli.main import ottla
from ottla.client.requests.offsets import OffsetSpec
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.localcluster.waiting import wait_until

HOUR_MS = 3_600_000
HANGING_PRODUCER = 7_000_000
# Without verification a producer can leave records that no coordinator knows of.
SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}


@pytest.fixture(scope="module")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start(target, tmp_path_factory.mktemp(target) / "data", SETTINGS)) as process:
        yield process


def kafka_rows(broker: BrokerProcess, *arguments: str) -> list[dict[str, str]]:
    """The table that Kafka's tool prints."""
    result = run_tool("transactions", "--bootstrap-server", broker.bootstrap, *arguments)
    assert result.status == 0, result.everything
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]] if lines else []


def ottla_rows(broker: BrokerProcess, *arguments: str) -> Any:
    done = CliRunner().invoke(ottla, ["transactions", *arguments, "--bootstrap", broker.bootstrap, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def stable_offset(broker: BrokerProcess, topic: str) -> int:
    with Peer(broker.port) as peer:
        return list_offset(peer, topic, OffsetSpec.LATEST, isolation_level=1).offset


@pytest.fixture(scope="module")
def ongoing(broker: BrokerProcess) -> Iterator[Producer]:
    """A transaction of librdkafka with three records in a topic, begun and not ended."""
    with Peer(broker.port) as peer:
        create_topic(peer, "ongoing")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "tool-1", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(3):
        producer.produce("ongoing", b"%d" % number)
    producer.flush(30)
    yield producer
    producer.purge()


def test_both_tools_list_and_describe_an_open_transaction(broker: BrokerProcess, ongoing: Producer) -> None:
    (listed,) = kafka_rows(broker, "list")
    (ours,) = ottla_rows(broker, "list")
    assert (listed["TransactionalId"], listed["TransactionState"]) == ("tool-1", "Ongoing")
    assert {key: str(value) for key, value in ours.items()} == {
        "transactional_id": "tool-1",
        "coordinator": listed["Coordinator"],
        "producer_id": listed["ProducerId"],
        "state": "Ongoing",
    }
    (described,) = kafka_rows(broker, "describe", "--transactional-id", "tool-1")
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", "ongoing-0")
    ours = ottla_rows(broker, "describe", "tool-1")
    assert str(ours["producer_epoch"]) == described["ProducerEpoch"]
    assert ours["partitions"] == [{"topic": "ongoing", "partition": 0}]
    (producer,) = kafka_rows(broker, "describe-producers", "--topic", "ongoing", "--partition", "0")
    assert (producer["CurrentTransactionStartOffset"], producer["LastSequence"]) == ("0", "2")
    (ours,) = ottla_rows(broker, "producers", "ongoing")
    assert (ours["open_since_offset"], ours["last_sequence"]) == (0, 2)


def test_our_tool_aborts_and_both_see_it(broker: BrokerProcess, ongoing: Producer) -> None:
    assert stable_offset(broker, "ongoing") == 0
    assert ottla_rows(broker, "abort", "tool-1") == {"aborted": ["tool-1"]}
    wait_until(lambda: stable_offset(broker, "ongoing") == 4, "the abort marker")
    (listed,) = kafka_rows(broker, "list")
    assert re.fullmatch("CompleteAbort|Empty", listed["TransactionState"])


@pytest.mark.parametrize("tool", ["kafka", "ottla"])
def test_both_tools_find_and_abort_a_hanging_transaction(broker: BrokerProcess, tool: str) -> None:
    topic, producer_id = f"hanging-{tool}", HANGING_PRODUCER + (tool == "ottla")
    records = batch(
        b"lost",
        timestamp=now_ms() - HOUR_MS,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    with Peer(broker.port) as peer:
        create_topic(peer, topic)
        made = produce(peer, topic, records, version=11, transactional_id="nobody")
        assert made.error_code == 0
    (found,) = kafka_rows(broker, "find-hanging", "--topic", topic, "--partition", "0")
    assert (found["ProducerId"], found["StartOffset"]) == (str(producer_id), "0")
    (ours,) = ottla_rows(broker, "find-hanging", "--topic", topic)
    assert (ours["producer_id"], ours["open_since_offset"]) == (producer_id, 0)
    if tool == "kafka":
        kafka_rows(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    else:
        ottla_rows(broker, "abort", "--partition", f"{topic}:0", "--producer-id", str(producer_id))
    wait_until(lambda: stable_offset(broker, topic) == 2, "the abort marker")
    assert kafka_rows(broker, "find-hanging", "--topic", topic, "--partition", "0") == []
    assert ottla_rows(broker, "find-hanging", "--topic", topic) == []
