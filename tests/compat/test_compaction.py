"""Compaction leaves what Apache Kafka's leaves, in files that both can read (RET-3, RET-4, RET-7).

Both brokers get the same records. The records that each keeps are compared with the same expectation, dumped
with Kafka's own tool, and served by the other broker.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.apache.kafka import run_tool
from confluent_kafka import Producer
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.model import CODECS, Received
from tests.clients.raw import fetch
from tests.conftest import start

from ottla.config import BrokerConfig, TopicConfig
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.localcluster.waiting import wait_until
from ottla.log.compaction.cleaner import Cleaner, CleanerLimits
from ottla.log.compaction.segment_reader import Throttle
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.records.batch import BatchView, iter_batches
from ottla.records.record import Record
from ottla.runtime.disk import OsDisk

TOPIC = "compacted"
OTHERS = {"ottla": "apache", "apache": "ottla"}
SETTINGS = {"log.cleaner.backoff.ms": "100"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",  # by the records' own times, which jump
    "delete.retention.ms": "86400000",
    "index.interval.bytes": "512",
}
KEYS = 40
ROUNDS = 12
DELETED = 5


@dataclass(frozen=True, slots=True)
class Compacted:
    """A data directory whose broker has compacted and stopped, and what must be left."""

    by: str
    data: Path
    expected: dict[bytes, bytes | None]
    batches: list[BatchView]

    @property
    def partition(self) -> Path:
        return self.data / f"{TOPIC}-0"

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches if not batch.is_control for record in batch.records()]


def write(broker: BrokerProcess) -> dict[bytes, bytes | None]:
    """Keys overwritten round after round in every codec, some deleted in the end; each round a segment of its
    own.
    """
    stamp_ms = int(time.time() * 1000) - 1_000_000
    expected: dict[bytes, bytes | None] = {}
    for number in range(ROUNDS):
        codec = list(CODECS)[number % len(CODECS)]
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
                "linger.ms": 20,
                "batch.num.messages": 10,
            }
        )
        for key in range(KEYS):
            name, value = b"key %d" % key, f"{codec} {number} {key} ".encode() * 10
            is_deleted = number == ROUNDS - 2 and key < DELETED
            if number == ROUNDS - 1 and key < DELETED:
                continue
            expected[name] = None if is_deleted else value
            producer.produce(TOPIC, expected[name], name, timestamp=stamp_ms + number * 10_000)
        assert producer.flush(30) == 0
    # One more segment, so that the last round is not in the active one.
    producer.produce(TOPIC, b"last", b"last", timestamp=stamp_ms + ROUNDS * 10_000)
    assert producer.flush(30) == 0
    return expected | {b"last": b"last"}


def read_batches(broker: BrokerProcess) -> list[BatchView]:
    found: list[BatchView] = []
    while True:
        offset = found[-1].next_offset if found else 0
        error, data = fetch(broker.bootstrap, TOPIC, 0, offset)
        assert error == 0
        batches = [
            batch for batch in iter_batches(data, allow_partial_end=True) if batch.next_offset > offset
        ]
        if not batches:
            return found
        found += batches


def is_compacted(broker: BrokerProcess) -> bool:
    keys = [record.key for batch in read_batches(broker) for record in batch.records()]
    return len(keys) == len(set(keys))


@pytest.fixture(scope="module")
def compacted(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compacted]:
    data = tmp_path_factory.mktemp(f"compacted-{target}") / "data"
    with running(start(target, data, SETTINGS)) as broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic(TOPIC, 1, configs=COMPACTED)
        client.close()
        expected = write(broker)
        wait_until(lambda: is_compacted(broker), "each key is there once", 60)
        batches = read_batches(broker)
    yield Compacted(target, data, expected, batches)
    shutil.rmtree(data.parent)


def test_each_key_has_its_newest_value_and_deleted_ones_their_tombstone(compacted: Compacted) -> None:
    assert {record.key: record.value for record in compacted.records} == compacted.expected
    offsets = [record.offset for record in compacted.records]
    assert offsets == sorted(offsets)
    assert compacted.batches[-1].next_offset == ROUNDS * KEYS - DELETED + 1


def test_tombstones_have_a_horizon_a_day_ahead(compacted: Compacted) -> None:
    for batch in compacted.batches:
        if any(record.value is None for record in batch.records()):
            assert batch.has_delete_horizon
            ahead_ms = (batch.delete_horizon_ms or 0) - time.time() * 1000
            assert 86_000_000 < ahead_ms <= 86_400_000
    assert any(batch.has_delete_horizon for batch in compacted.batches)


def test_the_dump_tool_reads_every_segment(compacted: Compacted) -> None:
    files = ",".join(str(file) for file in sorted(compacted.partition.glob("*.log")))
    result = run_tool("dump-log", "--files", files, "--deep-iteration")
    assert result.status == 0, result.everything
    assert "isvalid: false" not in result.stdout
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", result.stdout, re.MULTILINE)]
    assert offsets == [record.offset for record in compacted.records]


@pytest.mark.parametrize("check", [(), ("--index-sanity-check",), ("--verify-index-only",)])
def test_the_dump_tool_agrees_with_every_index(compacted: Compacted, check: tuple[str, ...]) -> None:
    files = ",".join(str(file) for file in sorted(compacted.partition.glob("*index")))
    result = run_tool("dump-log", "--files", files, *check)
    assert result.status == 0, result.everything
    assert "mismatch" not in result.everything.lower()
    assert not re.search(r"not (passed|found)|corrupt", result.everything)


def test_the_other_broker_serves_what_is_left(compacted: Compacted, tmp_path: Path) -> None:
    other = OTHERS[compacted.by]
    data = tmp_path / "data"
    with running(start(other, data)) as broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic(TOPIC, 1, configs=COMPACTED)
        client.close()
    _move_in(compacted.partition, data / f"{TOPIC}-0")
    (data / ".kafka_cleanshutdown").unlink()  # the files are not those that were shut down
    with running(start(other, data)) as broker:
        client = ConfluentClient(broker.bootstrap)
        received: list[Received] = client.consume(TOPIC, len(compacted.records), start=0)
        client.close()
    assert [(one.offset, one.key, one.value) for one in received] == [
        (record.offset, record.key, record.value) for record in compacted.records
    ]


def _move_in(source: Path, partition: Path) -> None:
    """Replace a partition's segments by a copy of others; its identity (partition.metadata) stays."""
    for file in partition.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata" and not file.name.endswith(".deleted"):
            shutil.copy(file, partition / file.name)


def test_aborted_transactions_that_apache_kafka_wrote_are_dropped_by_our_cleaner(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(start("apache", data)) as broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic(TOPIC, 1, configs=COMPACTED | {"min.cleanable.dirty.ratio": "1"})
        client.close()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
        producer.init_transactions(30)
        for number, is_commit in enumerate((True, False, True, False)):
            producer.begin_transaction()
            for key in range(4):
                value = f"{number} {'committed' if is_commit else 'aborted'}"
                producer.produce(TOPIC, value.encode(), b"%d" % (key + number))
            assert producer.flush(30) == 0  # or an abort would take back what was not sent yet
            producer.commit_transaction(30) if is_commit else producer.abort_transaction(30)
        plain = Producer({"bootstrap.servers": broker.bootstrap})
        # Later than the markers, which have the broker's time: a new segment begins with it.
        plain.produce(TOPIC, b"last", b"last", timestamp=int(time.time() * 1000) + 60_000)
        assert plain.flush(30) == 0
    assert list((data / f"{TOPIC}-0").glob("*.txnindex"))
    log = _opened(data / f"{TOPIC}-0")
    before = _values(log)
    assert any(b"aborted" in value for value in before)
    _compact(log)
    after = _values(log)
    log.close()
    assert after == [b"0 committed"] * 2 + [b"2 committed"] * 4 + [b"last"]
    files = ",".join(str(file) for file in sorted((data / f"{TOPIC}-0").glob("*.log")))
    result = run_tool("dump-log", "--files", files, "--deep-iteration")
    assert result.status == 0, result.everything
    assert "isvalid: false" not in result.stdout
    assert len(re.findall("endTxnMarker: ABORT", result.stdout)) == 2


def _opened(directory: Path) -> Log:
    settings = TopicConfig.resolve(BrokerConfig(), COMPACTED | {"min.cleanable.dirty.ratio": "0"})
    now_ms = int(time.time() * 1000)
    return Log.open(
        OsDisk(),
        str(directory),
        settings,
        recovery_point=0,
        log_start_offset=0,
        clean=False,
        now_ms=now_ms,
        open_files=OpenFiles(),
    )


def _values(log: Log) -> list[bytes]:
    found, values, offset = None, [], 0
    while found := log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one=True):
        for batch in iter_batches(found.file.read(found.position, found.size)):
            values += [] if batch.is_control else [record.value or b"" for record in batch.records()]
        offset = found.next_offset
    return values


def _compact(log: Log) -> None:
    now_ms = int(time.time() * 1000)
    plan = log.compaction.plan(log.log_end_offset, now_ms)
    assert plan is not None
    begun = log.compaction.begin(plan, now_ms)
    throttle = Throttle(float("inf"), time.monotonic, time.sleep)
    cleaner = Cleaner(OsDisk(), CleanerLimits(1 << 20, 1 << 20, float("inf")), throttle)
    mapped = cleaner.build_map(begun.job)
    for group in log.compaction.groups(begun, mapped.end_offset):
        assert log.compaction.swap(group, cleaner.clean(group.base_offsets), now_ms)
