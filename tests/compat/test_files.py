"""On disk we are Apache Kafka: its dump tool reads our files without complaint, and each reads the other's
(STO-2, STO-3).

Every check runs over files of Apache Kafka, too: what the tool complains of there is no complaint.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.apache.kafka import ToolResult, run_tool
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.model import CODECS, Message
from tests.conftest import start

from ottla.config import BrokerConfig, TopicConfig
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.records.batch import iter_batches
from ottla.runtime.disk import OsDisk

TOPIC = "written"
OTHERS = {"ottla": "apache", "apache": "ottla"}
MANY_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}
# The tool compares the first offset of a file with -1 unless it is 0, and says so of Kafka's own files.
NO_COMPLAINT = re.compile(r"Non-consecutive offsets in \S+\n\s+-1 is followed by \d+\n")


@dataclass(frozen=True, slots=True)
class Written:
    """A data directory whose broker has stopped, and what a reader must find in it."""

    by: str
    data: Path
    messages: list[Message]

    @property
    def partition(self) -> Path:
        return self.data / f"{TOPIC}-0"

    def files(self, pattern: str, directory: Path | None = None) -> str:
        found = sorted((directory or self.partition).glob(pattern))
        assert found, f"no {pattern} in {directory or self.partition}"
        return ",".join(str(file) for file in found)


def messages_of(codec: str) -> list[Message]:
    start_ms = int(time.time() * 1000) - 60_000
    return [
        Message(
            f"{codec} {n} ".encode() * 40, f"key {n % 9}".encode(), (("codec", codec.encode()),), start_ms + n
        )
        for n in range(2500)
    ]


def write(broker: BrokerProcess) -> list[Message]:
    """Several segments of batches in every codec, with a topic made, changed and deleted beside them."""
    client = ConfluentClient(broker.bootstrap)
    client.create_topic(TOPIC, 1, configs=MANY_SEGMENTS)
    client.create_topic("changed", 2)
    client.incremental_alter_configs("changed", {"retention.ms": "86400000"})
    client.add_partitions("changed", 3)
    client.create_topic("deleted", 1)
    client.delete_topic("deleted")
    messages: list[Message] = []
    for codec in CODECS:
        for idempotent in (False, True):
            part = messages_of(codec)
            client.produce(TOPIC, part, codec=codec, idempotent=idempotent)
            messages += part
    client.close()
    return messages


@pytest.fixture(scope="module")
def written(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    data = tmp_path_factory.mktemp(f"written-{target}") / "data"
    with running(start(target, data)) as broker:
        messages = write(broker)
    yield Written(target, data, messages)
    shutil.rmtree(data.parent)


def complaints(result: ToolResult) -> str:
    assert result.status == 0, result.everything
    assert "isvalid: false" not in result.stdout
    return NO_COMPLAINT.sub("", result.stderr).strip()


def test_the_dump_tool_finds_every_record_of_every_segment(written: Written) -> None:
    result = run_tool("dump-log", "--files", written.files("*.log"), "--deep-iteration")
    assert complaints(result) == ""
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", result.stdout, re.MULTILINE)]
    assert offsets == list(range(len(written.messages)))
    assert set(re.findall(r"compresscodec: (\w+)", result.stdout)) == set(CODECS)
    assert len(re.findall(r"^Log starting offset", result.stdout, re.MULTILINE)) >= 3


def test_the_dump_tool_prints_keys_values_and_headers(written: Written) -> None:
    first = written.files("*.log").split(",")[0]
    result = run_tool("dump-log", "--files", first, "--print-data-log")
    assert complaints(result) == ""
    assert re.search(
        r"^\| offset: 3 .*headerKeys: \[codec\] key: key 3 payload: none 3 none 3", result.stdout, re.M
    )


@pytest.mark.parametrize("check", [(), ("--index-sanity-check",), ("--verify-index-only",)])
def test_the_dump_tool_agrees_with_every_index(written: Written, check: tuple[str, ...]) -> None:
    result = run_tool("dump-log", "--files", written.files("*index"), *check)
    assert complaints(result) == ""
    assert "mismatch" not in result.stdout.lower()
    assert not re.search(r"not (passed|found)|corrupt", result.stdout)


def test_the_dump_tool_reads_the_producer_snapshots(written: Written) -> None:
    result = run_tool("dump-log", "--files", written.files("*.snapshot"))
    assert complaints(result) == ""
    last = result.stdout.split("Dumping ")[-1]
    producers = re.findall(r"producerId: (\d+) producerEpoch: 0 .* lastSequence: (\d+)", last)
    assert len({producer for producer, _ in producers}) == len(CODECS)
    assert {sequence for _, sequence in producers} == {"2499"}


def test_the_dump_tool_decodes_the_metadata_log(written: Written) -> None:
    metadata = written.files("*.log", written.data / "__cluster_metadata-0")
    result = run_tool("dump-log", "--files", metadata, "--cluster-metadata-decoder")
    assert complaints(result) == ""
    payloads = [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", result.stdout, re.MULTILINE)]
    assert len(payloads) == len(re.findall(r"payload: ", result.stdout))
    kinds = {payload["type"] for payload in payloads}
    assert kinds >= {
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
        "PRODUCER_IDS_RECORD",
    }
    names = [payload["data"]["name"] for payload in payloads if payload["type"] == "TOPIC_RECORD"]
    assert [name for name in names if not name.startswith("__")] == [TOPIC, "changed", "deleted"]


def test_the_directory_has_the_files_that_kafka_has(written: Written) -> None:
    names = {re.sub(r"^\d{20}", "N", file.name) for file in written.partition.iterdir()}
    assert names == {
        "N.log",
        "N.index",
        "N.timeindex",
        "N.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    root = {file.name for file in written.data.iterdir() if file.is_file()}
    assert root >= {
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        ".kafka_cleanshutdown",
    }


@pytest.fixture
def log(written: Written, tmp_path: Path) -> Iterator[Log]:
    """Our log, opened over a copy of the partition, as after a crash: nothing is taken on trust."""
    directory = tmp_path / written.partition.name
    shutil.copytree(written.partition, directory)
    opened = Log.open(
        OsDisk(),
        str(directory),
        TopicConfig.resolve(BrokerConfig(), MANY_SEGMENTS),
        recovery_point=0,
        log_start_offset=0,
        clean=False,
        now_ms=int(time.time() * 1000),
        open_files=OpenFiles(),
    )
    yield opened
    opened.close()


def test_our_log_reads_every_record(written: Written, log: Log) -> None:
    assert (log.log_start_offset, log.log_end_offset) == (0, len(written.messages))
    read: list[Message] = []
    offset = 0
    while found := log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one=True):
        for batch in iter_batches(memoryview(found.file.read(found.position, found.size))):
            assert batch.crc_is_valid()
            read += [
                Message(
                    _bytes(r.value), _bytes(r.key), tuple((n, _bytes(v)) for n, v in r.headers), r.timestamp
                )
                for r in batch.records()
            ]
        offset = found.next_offset
    assert read == written.messages


def _bytes(value: object) -> bytes | None:
    return None if value is None else bytes(value)  # type: ignore[call-overload]


def test_our_log_finds_offsets_times_and_producers(written: Written, log: Log) -> None:
    for offset in (0, 1, 2499, 2500, 7777, len(written.messages) - 1):
        found = log.read(offset, 1, upper_offset=log.log_end_offset, at_least_one=True)
        assert found is not None
        (batch,) = iter_batches(memoryview(found.file.read(found.position, found.size)))
        assert batch.base_offset <= offset <= batch.last_offset
    times = [message.timestamp_ms or 0 for message in written.messages]
    for timestamp in (times[0], times[100], max(times)):
        answer = log.timestamps.first_at(timestamp, upper_offset=log.log_end_offset)
        assert answer is not None
        assert answer.offset == next(n for n, when in enumerate(times) if when >= timestamp)
    assert log.timestamps.first_at(max(times) + 1, upper_offset=log.log_end_offset) is None
    assert log.timestamps.largest().timestamp == max(times)


def dump(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("ottla")), "dump", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_our_dump_shows_every_kind_of_file(written: Written) -> None:
    rows = [
        json.loads(line)
        for line in dump("--json", "--records", "--deep", str(written.partition)).splitlines()
    ]
    assert len(rows) > len(written.messages)
    for pattern in ("*.log", "*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"):
        assert dump(written.files(pattern).split(",")[-1]).strip()
    metadata = dump("--records", str(written.data / "__cluster_metadata-0"))
    assert TOPIC in metadata


def test_the_other_broker_serves_the_files_as_its_own(written: Written, tmp_path: Path) -> None:
    other = OTHERS[written.by]
    data = tmp_path / "data"
    with running(start(other, data)) as broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic(TOPIC, 1, configs=MANY_SEGMENTS)
        client.close()
    _move_in(written.partition, data / f"{TOPIC}-0")
    (data / ".kafka_cleanshutdown").unlink()  # the files are not those that were shut down
    with running(start(other, data)) as broker:
        client = ConfluentClient(broker.bootstrap)
        received = client.consume(TOPIC, len(written.messages), start=0)
        client.produce(TOPIC, [Message(b"one more")])
        end = client.list_offset(TOPIC, 0, "latest")
        client.close()
    assert [record.offset for record in received] == list(range(len(written.messages)))
    assert [(record.key, record.value) for record in received] == [(m.key, m.value) for m in written.messages]
    assert end == len(written.messages) + 1


def _move_in(source: Path, partition: Path) -> None:
    """Replace a partition's segments by a copy of others; its identity (partition.metadata) stays."""
    for file in partition.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, partition / file.name)
