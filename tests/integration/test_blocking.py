"""The clients without asyncio, against a broker: in scripts, in notebooks, interrupted and forgotten."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

import ottla
import ottla.blocking
from ottla.testing import EmbeddedBroker


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_script_creates_sends_and_reads(ottla_broker: EmbeddedBroker) -> None:
    with ottla.blocking.Admin(ottla_broker.bootstrap) as admin:
        created = admin.create_topics([ottla.NewTopic("orders", partitions=2)])["orders"]
        assert not isinstance(created, ottla.KafkaError)
        assert [topic.name for topic in admin.list_topics()] == ["orders"]
    with ottla.blocking.Producer(ottla_broker.bootstrap) as producer:
        assert producer.send("orders", "coffee", partition=0).offset == 0
        later = [producer.send_soon("orders", "tea", partition=1) for _ in range(100)]
        assert [each.result().offset for each in later] == list(range(100))
        assert all(each.done() for each in later)
    with ottla.blocking.Consumer(
        ottla_broker.bootstrap, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        read = []
        for record in consumer:
            read.append(record.value)
            if len(read) == 101:
                break
        assert set(read) == {b"coffee", b"tea"}
        assert sum(consumer.lag().values()) == 0
        consumer.commit()
    assert not [each for each in threading.enumerate() if each.name.startswith("ottla.blocking")]


def test_batches_and_polls_are_read_without_a_group(ottla_broker: EmbeddedBroker) -> None:
    with ottla.blocking.Producer(ottla_broker.bootstrap) as producer:
        for number in range(10):
            producer.send_soon("orders", str(number))
        producer.flush()
    with ottla.blocking.Consumer(ottla_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        orders = ottla.TopicPartition("orders", 0)
        consumer.assign([orders])
        assert len(consumer.poll(max_records=4, timeout_ms=10_000)) == 4
        consumer.seek(orders, 5)
        assert list(next(consumer.batches()).offsets) == [5, 6, 7, 8, 9]
        assert consumer.poll(timeout_ms=10) == []


def test_what_fails_is_raised_with_the_record(ottla_broker: EmbeddedBroker) -> None:
    ottla_broker.faults.fail("produce", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with ottla.blocking.Producer(ottla_broker.bootstrap) as producer:
        with pytest.raises(ottla.DeliveryError) as raised:
            producer.send("orders", "coffee")
        assert raised.value.records[0].topic == "orders"
    with pytest.raises(ottla.CannotConnectError):
        ottla.blocking.Producer("127.0.0.1:1")


def test_a_notebook_has_a_running_loop_and_cells(ottla_broker: EmbeddedBroker) -> None:
    async def notebook() -> bytes | None:
        producer = ottla.blocking.Producer(ottla_broker.bootstrap)
        producer.send("orders", "coffee")
        producer.close()
        consumer = ottla.blocking.Consumer(ottla_broker.bootstrap, auto_offset_reset="earliest")
        consumer.assign([ottla.TopicPartition("orders", 0)])
        (record,) = consumer.poll(timeout_ms=10_000)
        consumer.close()
        return record.value

    assert asyncio.run(notebook()) == b"coffee"


FORGETFUL = """
import sys, ottla.blocking
producer = ottla.blocking.Producer(sys.argv[1], linger_ms=10_000)
producer.send_soon("orders", "coffee")
"""


def test_a_program_that_forgets_to_close_loses_nothing_and_ends(ottla_broker: EmbeddedBroker) -> None:
    done = run(FORGETFUL, ottla_broker.bootstrap)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [record.value for record in ottla_broker.records("orders")] == [b"coffee"]


INTERRUPTED = """
import sys, ottla.blocking
with ottla.blocking.Consumer(sys.argv[1], group_id="readers", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["orders"])
    try:
        for record in consumer:
            print(record.value.decode(), flush=True)
    except KeyboardInterrupt:
        print("interrupted", consumer.poll(timeout_ms=1))
        raise
"""


def test_ctrl_c_ends_a_wait_and_the_client_can_still_be_used(ottla_broker: EmbeddedBroker) -> None:
    with ottla.blocking.Producer(ottla_broker.bootstrap) as producer:
        producer.send("orders", "coffee")
    command = [sys.executable, "-X", "dev", "-c", INTERRUPTED, ottla_broker.bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "coffee\n"
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=30)
    assert said == "interrupted []\n"
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "never awaited" not in errors
    assert process.returncode == -signal.SIGINT
