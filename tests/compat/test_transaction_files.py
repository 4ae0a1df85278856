"""Files with transactions: Kafka's dump tool reads ours, and each broker reads the other's (EOS-2, STO-2).

Every check runs over files of Apache Kafka, too.
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
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conftest import start

from ottla.config import BrokerConfig, TopicConfig
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.runtime.disk import OsDisk

TOPIC = "transactions"
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
OTHERS = {"ottla": "apache", "apache": "ottla"}
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Written:
    """A data directory whose broker has stopped, and the records that are committed in it."""

    by: str
    data: Path
    committed: list[bytes]

    @property
    def partition(self) -> Path:
        return self.data / f"{TOPIC}-0"

    def files(self, pattern: str) -> list[str]:
        found = sorted(str(file) for file in self.partition.glob(pattern))
        assert found, f"no {pattern} in {self.partition}"
        return found


def create(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=1, config=SMALL_SEGMENTS)
    admin.create_topics([topic])[TOPIC].result(DEADLINE_S)


def transactional(broker: BrokerProcess, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(DEADLINE_S)
    return producer


def write(broker: BrokerProcess) -> list[bytes]:
    """Committed and aborted transactions over several segments, one that outlives them, and one left open."""
    create(broker)
    committed: list[bytes] = []
    short, long, open_ = (transactional(broker, name) for name in ("short", "long", "open"))
    long.begin_transaction()
    long.produce(TOPIC, b"long", partition=0)
    long.flush(DEADLINE_S)
    for number in range(12):
        value = b"%d " % number * 60_000
        short.begin_transaction()
        short.produce(TOPIC, value, partition=0)
        short.flush(DEADLINE_S)
        if number % 3:
            short.commit_transaction(DEADLINE_S)
            committed.append(value)
        else:
            short.abort_transaction(DEADLINE_S)
    long.abort_transaction(DEADLINE_S)
    open_.begin_transaction()
    open_.produce(TOPIC, b"open", partition=0)
    open_.flush(DEADLINE_S)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(TOPIC, b"behind the open one", partition=0)
    plain.flush(DEADLINE_S)
    return committed


@pytest.fixture(scope="module")
def written(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    data = tmp_path_factory.mktemp(f"transactions-{target}") / "data"
    with running(start(target, data)) as broker:
        committed = write(broker)
    yield Written(target, data, committed)
    shutil.rmtree(data.parent)


def test_the_dump_tool_reads_every_aborted_transaction(written: Written) -> None:
    result = run_tool("dump-log", "--files", ",".join(written.files("*.txnindex")))
    assert result.status == 0, result.everything
    assert result.stderr.strip() == ""
    fields = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    aborted = [tuple(map(int, found)) for found in re.findall(fields, result.stdout)]
    # The long transaction began first and was aborted last: until then nothing after it was stable.
    assert len(aborted) == 5
    assert [entry[3] for entry in aborted[:-1]] == [0] * 4
    producer, first, last, stable = aborted[-1]
    assert (first, stable) == (0, last + 1)
    assert producer not in {entry[0] for entry in aborted[:-1]}


def test_the_dump_tool_reads_markers_and_open_transactions(written: Written) -> None:
    logs = run_tool("dump-log", "--files", ",".join(written.files("*.log")), "--deep-iteration")
    assert logs.status == 0, logs.everything
    assert "isvalid: false" not in logs.stdout
    markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (-?\d+)", logs.stdout)
    assert [outcome for outcome, _ in markers].count("ABORT") == 5
    assert [outcome for outcome, _ in markers].count("COMMIT") == 8
    snapshot = run_tool("dump-log", "--files", written.files("*.snapshot")[-1])
    assert snapshot.status == 0, snapshot.everything
    open_offsets = re.findall(r"currentTxnFirstOffset: (?:OptionalLong\[)?(\d+)", snapshot.stdout)
    assert len(open_offsets) == 1


def test_the_dump_tool_reads_the_coordinators_log(written: Written) -> None:
    """The last state of each id: what was committed, what was aborted, and what is open with its partition."""
    logs = sorted(
        str(file) for file in written.data.glob("__transaction_state-*/*.log") if file.stat().st_size
    )
    dump = run_tool("dump-log", "--transaction-log-decoder", "--files", ",".join(logs))
    assert dump.status == 0, dump.everything
    assert dump.stderr.strip() == ""
    assert "isvalid: false" not in dump.stdout
    last: dict[str, str] = {}
    for line in dump.stdout.splitlines():
        if found := re.search(r'"transactionalId":"(\w+)".*"transactionStatus":(\d).*', line):
            last[found[1]] = line
    assert set(last) == {"short", "long", "open"}, dump.stdout
    status = {name: int(line.partition('"transactionStatus":')[2][0]) for name, line in last.items()}
    # Kafka's numbers: 1 is open; the decision (2, 3) is followed by the completion (4, 5).
    assert status["open"] == 1
    assert status["short"] in (2, 4)
    assert status["long"] in (3, 5)
    assert f'"topic":"{TOPIC}"' in last["open"]


@pytest.mark.parametrize("clean", [True, False])
def test_our_log_knows_the_same_aborted_transactions(written: Written, clean: bool, tmp_path: Path) -> None:
    """As they lie in the files, and, after a crash, as they are rebuilt from the batches."""
    directory = tmp_path / written.partition.name
    shutil.copytree(written.partition, directory)
    if not clean:
        for index in directory.glob("*.txnindex"):
            index.write_bytes(b"lost")
    log = Log.open(
        OsDisk(),
        str(directory),
        TopicConfig.resolve(BrokerConfig(), SMALL_SEGMENTS),
        recovery_point=0,
        log_start_offset=0,
        clean=clean,
        now_ms=int(time.time() * 1000),
        open_files=OpenFiles(),
    )
    log.producers.transactions.replicated_to(log.log_end_offset)
    unstable = log.first_unstable_offset
    assert unstable is not None
    assert len(log.aborted_transactions(0, unstable)) == 5
    log.close()
    for name in written.files("*.txnindex"):
        assert (directory / Path(name).name).read_bytes() == Path(name).read_bytes()


def test_the_other_broker_serves_what_is_committed(written: Written, tmp_path: Path) -> None:
    data = tmp_path / "data"
    other = OTHERS[written.by]
    with running(start(other, data)) as broker:
        create(broker)
    partition = data / f"{TOPIC}-0"
    for file in partition.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in written.partition.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, partition / file.name)
    (data / ".kafka_cleanshutdown").unlink()  # the files are not those that were shut down
    with running(start(other, data)) as broker:
        assert read(broker, "read_committed", len(written.committed)) == written.committed
        everything = read(broker, "read_uncommitted", 15)
        assert {b"long", b"open", b"behind the open one"} <= set(everything)
        assert set(written.committed) < set(everything)


def read(broker: BrokerProcess, isolation_level: str, count: int) -> list[bytes]:
    """The first records of the topic; a reader of committed ones must not get one more."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value() or b"")
        elif len(values) >= count:
            # The end of what this reader may see.
            break
    consumer.close()
    return values
