"""Compaction of a running broker, as clients and operators see it (RET-3 to RET-7)."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.killing import PRODUCE_VERSION, Client
from tests.integration.peer import (
    Peer,
    create_topic,
    delete_topic,
    fetch,
    now_ms,
    produce,
    produce_request,
)

from ottla.config import TopicConfig
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.log.log import Log
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.records.batch import iter_batches
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record

SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.retention.check.interval.ms": "20",
    "log.segment.delete.delay.ms": "0",
}
COMPACTION_DEADLINE_S = 60.0  # writes, a roll and a pass of the cleaner's process on a busy machine
COMPACTED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_bytes": 4000,
    "min_cleanable_dirty_ratio": 0.01,
}


@pytest.fixture(scope="module")
def compacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker that compacts at once."""
    with broker_thread(tmp_path_factory.mktemp("compacting") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def peer(compacting: BrokerThread) -> Iterator[Peer]:
    with Peer(compacting.port) as connected:
        yield connected


def put(peer: Peer, topic: str, pairs: dict[bytes, bytes | None], **options: Any) -> int:
    """Produce one batch of these; the offset of the first."""
    made = [Record(delta, now_ms(), key, value) for delta, (key, value) in enumerate(pairs.items())]
    answer = produce(peer, topic, build_batch(made, **options))
    assert answer.error_code == 0, answer.error_message
    return answer.base_offset


def overwrite(peer: Peer, topic: str, rounds: int, keys: int = 10) -> dict[bytes, bytes | None]:
    """Write each key so many times; what each is in the end."""
    newest: dict[bytes, bytes | None] = {}
    for number in range(rounds):
        codec = list(Compression)[number % 5]
        newest = {b"k%d" % key: b"%d/%d" % (number, key) * 3 for key in range(keys)}
        put(peer, topic, newest, compression=codec)
    return newest


def read_records(peer: Peer, topic: str) -> list[Record]:
    """Every record from the beginning, as a consumer that goes on behind what it got."""
    found: list[Record] = []
    offset = 0
    while batches := list(iter_batches(fetch(peer, topic, offset).records or b"")):
        found += [record for batch in batches for record in batch.records() if record.offset >= offset]
        offset = batches[-1].next_offset
    return found


def seal(broker: BrokerThread, topic: str) -> None:
    """Begin a new segment, so that everything before can be compacted."""
    log = broker.log(topic)
    broker.call(lambda: log.roll(now_ms()))


def wait_until_clean(broker: BrokerThread, topic: str) -> None:
    log = broker.log(topic)
    wait_until(
        lambda: log.compaction.first_dirty_offset == log.extent.segments.active.base_offset,
        f"{topic} is compacted",
    )


def test_only_the_newest_value_of_each_key_is_left_and_offsets_do_not_change(
    compacting: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, **COMPACTED)
    newest = overwrite(peer, topic, rounds=60)
    seal(compacting, topic)
    wait_until_clean(compacting, topic)
    found = read_records(peer, topic)
    assert {record.key: record.value for record in found} == newest
    assert [record.offset for record in found] == list(range(590, 600))
    # A consumer anywhere in the hole gets something that brings it on, if only an empty batch.
    for offset in (0, 123, 589):
        (batch, *_) = iter_batches(fetch(peer, topic, offset).records or b"")
        assert batch.next_offset > offset
    assert put(peer, topic, {b"new": b"1"}) == 600


def test_librdkafka_reads_over_the_holes_to_the_end(compacting: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, **COMPACTED)
    newest = overwrite(peer, topic, rounds=40)
    put(peer, topic, dict.fromkeys(newest))
    seal(compacting, topic)
    wait_until_clean(compacting, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{compacting.port}",
            "group.id": "nobody",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        offsets: list[int] = []
        while True:
            message = consumer.poll(15)
            assert message is not None, f"stuck behind {offsets}"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                break
            assert message.value() is None
            offsets.append(message.offset())
        assert offsets == list(range(400, 410))
        assert message.offset() == 410
    finally:
        consumer.close()


def test_tombstones_go_after_their_time_without_another_write(
    compacting: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, delete_retention_ms=300, **COMPACTED)
    overwrite(peer, topic, rounds=3)
    put(peer, topic, {b"k0": None, b"k1": b"stays", b"k2": None})
    seal(compacting, topic)
    wait_until(lambda: len(read_records(peer, topic)) == 8, "the tombstones are gone")
    found = {record.key: record.value for record in read_records(peer, topic)}
    assert found[b"k1"] == b"stays"
    assert not {b"k0", b"k2"} & found.keys()


def test_an_idempotent_producer_goes_on_over_compaction(
    compacting: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, **COMPACTED)
    producer = {"producer_id": 4711, "producer_epoch": 0}
    put(peer, topic, {b"a": b"1"}, base_sequence=0, **producer)
    overwrite(peer, topic, rounds=10, keys=1)
    put(peer, topic, {b"a": b"2"})
    seal(compacting, topic)
    wait_until_clean(compacting, topic)
    assert put(peer, topic, {b"a": b"1"}, base_sequence=0, **producer) == 0  # a retry, known by its sequence
    assert put(peer, topic, {b"a": b"3"}, base_sequence=1, **producer) == 12


def test_a_topic_that_is_both_compacted_and_deleted_from_is_kept_small_both_ways(
    compacting: BrokerThread, peer: Peer, topic: str
) -> None:
    settings = COMPACTED | {"cleanup_policy": "compact,delete", "retention_bytes": 6000}
    create_topic(peer, topic, **settings)
    newest: dict[bytes, bytes | None] = {}
    for number in range(150):
        # Keys that come back, and keys that never do: the one is for compaction, the other for retention.
        pairs: dict[bytes, bytes | None] = {b"often": b"%d" % number, b"once%d" % number: b"v" * 300}
        put(peer, topic, pairs)
        newest |= pairs
    seal(compacting, topic)
    log = compacting.log(topic)
    wait_until(
        lambda: log.log_start_offset > 0 and log.extent.segments.size_bytes < 10_000,
        "old segments are deleted",
    )
    wait_until_clean(compacting, topic)
    found = read_records_from(peer, topic, log)
    assert found[-1].value == newest[b"once149"]
    assert [record.value for record in found if record.key == b"often"] == [b"149"]
    assert all(record.value == newest[record.key or b""] for record in found)


def read_records_from(peer: Peer, topic: str, log: Log) -> list[Record]:
    """As `read_records`, from the log's start, which may move meanwhile."""
    while True:
        offset = log.log_start_offset
        answer = fetch(peer, topic, offset)
        if answer.error_code == 0:
            break
    found: list[Record] = []
    while batches := list(iter_batches(fetch(peer, topic, offset).records or b"")):
        found += [record for batch in batches for record in batch.records() if record.offset >= offset]
        offset = batches[-1].next_offset
    return found


def test_a_damaged_log_is_left_alone_with_one_line_and_the_others_are_compacted(
    compacting: BrokerThread, peer: Peer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = f"{topic}-damaged"
    # A ratio that is never reached, until the damage is done.
    create_topic(peer, damaged, **(COMPACTED | {"min_cleanable_dirty_ratio": 1}))
    overwrite(peer, damaged, rounds=20)
    seal(compacting, damaged)
    log = compacting.log(damaged)
    path = Path(log.extent.segments[0].path(".log"))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    before = sorted(file.name for file in path.parent.iterdir())
    with caplog.at_level("ERROR", logger="ottla.server.partitions.compaction"):
        compacting.call(lambda: compacting.partition(damaged).configure(config_of(log, 0.01)))
        wait_until(lambda: "cannot be compacted" in caplog.text, "the damage is found")
    assert f"{damaged}-0 cannot be compacted and is left alone until the broker restarts" in caplog.text
    assert "checksum" in caplog.text
    create_topic(peer, topic, **COMPACTED)
    overwrite(peer, topic, rounds=20)
    seal(compacting, topic)
    wait_until_clean(compacting, topic)
    assert caplog.text.count("cannot be compacted") == 1
    assert sorted(file.name for file in path.parent.iterdir()) == before
    assert log.compaction.first_dirty_offset == 0


def config_of(log: Log, ratio: float) -> TopicConfig:
    values = {name: getattr(log.tail.config, name) for name in log.tail.config.__slots__}
    return TopicConfig(**(values | {"min_cleanable_dirty_ratio": ratio}))


def test_topics_come_and_go_while_they_are_compacted(
    compacting: BrokerThread, peer: Peer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("ERROR"):
        for number in range(8):
            name = f"{topic}-{number % 2}"
            create_topic(peer, name, **COMPACTED)
            overwrite(peer, name, rounds=20)
            delete_topic(peer, name)
        create_topic(peer, topic, **COMPACTED)
        newest = overwrite(peer, topic, rounds=20)
        seal(compacting, topic)
        wait_until_clean(compacting, topic)
    assert {record.key: record.value for record in read_records(peer, topic)} == newest
    assert "compact" not in caplog.text


def test_a_record_in_the_active_segment_does_not_wait_longer_than_the_largest_lag(
    compacting: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, cleanup_policy="compact", max_compaction_lag_ms=200)
    newest = overwrite(peer, topic, rounds=5)
    wait_until(
        lambda: len(read_records(peer, topic)) == len(newest), "the active segment was rolled and cleaned"
    )


def test_without_compacted_topics_there_is_no_process_and_a_stop_leaves_none(tmp_path: Path) -> None:
    with running(start_broker(tmp_path / "data", SETTINGS)) as broker:
        with Peer(broker.port) as peer:
            create_topic(peer, "plain")
            put(peer, "plain", {b"a": b"1"})
            assert children(broker.pid) == []
            create_topic(peer, "compacted", **COMPACTED)
            overwrite(peer, "compacted", rounds=30)
        wait_until(lambda: bool(children(broker.pid)), "the cleaner is there")
        (cleaner,) = children(broker.pid)
        assert broker.stop() == 0
        assert not Path(f"/proc/{cleaner}").exists()
    assert "Traceback" not in broker.said()


def test_a_cleaner_that_is_killed_costs_its_log_a_while_and_the_others_nothing(tmp_path: Path) -> None:
    slowly = SETTINGS | {"log.cleaner.io.max.bytes.per.second": "20000"}
    with running(start_broker(tmp_path / "data", slowly)) as broker, Peer(broker.port) as peer:
        create_topic(peer, "slow", **COMPACTED)
        overwrite(peer, "slow", rounds=200)
        wait_until(lambda: bool(children(broker.pid)), "the cleaner is there")
        (cleaner,) = children(broker.pid)
        os.kill(cleaner, signal.SIGKILL)
        wait_until(lambda: "slow-0 cannot be compacted" in broker.said(), "its end is noticed")
        assert "is left alone for ten minutes: the cleaner process ended with status -9" in broker.said()
        wait_until(partial(is_gone, cleaner), "no zombie is left")
        create_topic(peer, "quick", **COMPACTED)
        newest = overwrite(peer, "quick", rounds=6)
        put(peer, "quick", dict.fromkeys([b"filler"], b"." * 3900))
        wait_until(lambda: "compacted quick-0" in broker.said(), "another is compacted by another process")
        found = {record.key: record.value for record in read_records(peer, "quick")}
        assert {key: found[key] for key in newest} == newest
        files = [file.name for file in (tmp_path / "data" / "slow-0").iterdir()]
        assert not [name for name in files if name.endswith((".cleaned", ".swap"))]


def children(pid: int) -> list[int]:
    return [
        int(child)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    ]


class Overwriter:
    """Writes rising numbers to a few keys until told to stop, over any number of crashes.

    So many writes for each life of the broker fill a few segments: on a busy machine, a writer without a limit
    would be ahead of the cleaner for ever.
    """

    WRITES = 600

    def __init__(self, port: int) -> None:
        self.port = port
        self.stopping = threading.Event()
        self.acknowledged: dict[bytes, int] = {}
        self.sent: dict[bytes, int] = {}
        self.number = 0
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                client = Client(self.port)
            except OSError:
                self.stopping.wait(0.01)
                continue
            try:
                for _ in range(self.WRITES):
                    if not self.stopping.wait(0.001):
                        self._write(client)
                while not self.stopping.wait(0.01):
                    client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))  # until the broker is killed
            except OSError:
                pass
            finally:
                client.close()

    def _write(self, client: Client) -> None:
        self.number += 1
        keys = [b"k%d" % (self.number * 7 % 13), b"k%d" % (self.number % 13)]
        value = b"%d" % self.number + b"." * 50
        self.sent |= dict.fromkeys(keys, self.number)
        batch = build_batch([Record(delta, now_ms(), key, value) for delta, key in enumerate(keys)])
        answer = client.ask(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request("kills", batch))
        if answer.responses[0].partition_responses[0].error_code == 0:
            self.acknowledged |= dict.fromkeys(keys, self.number)


@pytest.mark.timeout(400)
def test_brokers_killed_while_they_compact_keep_the_newest_value_of_every_key(tmp_path: Path) -> None:
    rng = random.Random(7)
    with ExitStack() as brokers:
        broker = brokers.enter_context(running(start_broker(tmp_path / "data", SETTINGS)))
        with Peer(broker.port) as peer:
            create_topic(peer, "kills", **(COMPACTED | {"segment_bytes": 20_000}))
        writer = Overwriter(broker.port)
        writer.thread.start()
        try:
            for _ in range(5):
                wait_until(partial(has_compacted, broker), "passes are under way", COMPACTION_DEADLINE_S)
                # Not a wait for a condition: the moment itself is what is drawn at random.
                writer.stopping.wait(rng.uniform(0.0, 0.2))
                (cleaner,) = children(broker.pid)
                broker.kill()
                wait_until(partial(is_gone, cleaner), "its cleaner died too")
                again = start_broker(broker.data, SETTINGS, port=broker.port)
                broker = brokers.enter_context(running(again))
        finally:
            writer.stopping.set()
            writer.thread.join()
        with Peer(broker.port) as peer:
            check_newest(peer, writer)


def check_newest(peer: Peer, writer: Overwriter) -> None:
    """Every key has a value that is not older than its last acknowledged one, and older ones do not follow."""
    newest: dict[bytes, int] = {}
    for record in read_records(peer, "kills"):
        assert record.key is not None
        number = int((record.value or b"").rstrip(b"."))
        assert number >= newest.get(record.key, 0), "an older value came back behind a newer one"
        newest[record.key] = number
    for key, number in writer.acknowledged.items():
        assert number <= newest[key] <= writer.sent[key]
    wait_until(
        lambda: len(read_records(peer, "kills")) < 1000, "what is left is compacted", COMPACTION_DEADLINE_S
    )


def has_compacted(broker: BrokerProcess) -> bool:
    return "compacted kills-0" in broker.said()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
