"""`ottla produce` and `ottla bench` as people and scripts use them: real processes, a real broker."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.command_line import OTTLA
from tests.integration.peer import Peer, create_topic, fetch, now_ms, read_all, records_of

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start_broker(tmp_path_factory.mktemp("produce") / "data")) as process:
        yield process


@pytest.fixture
def peer(node: BrokerProcess) -> Iterator[Peer]:
    with Peer(node.port) as connected:
        yield connected


@pytest.fixture
def topic(peer: Peer) -> str:
    name = f"lines{next(NUMBERS)}"
    create_topic(peer, name, partitions=2)
    return name


def ottla(node: BrokerProcess, *arguments: str, lines: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    return subprocess.run(
        [OTTLA, *arguments],
        input=lines,
        capture_output=True,
        timeout=60,
        env=variables | {"OTTLA_BOOTSTRAP": node.bootstrap},
        check=False,
    )


def test_lines_become_records_byte_by_byte(node: BrokerProcess, peer: Peer, topic: str) -> None:
    done = ottla(node, "produce", topic, "--partition", "1", lines=b"one\n\ntwo \xff\r\nlast without an end")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert read_all(peer, topic, 1) == [b"one", b"", b"two \xff", b"last without an end"]


def test_all_lines_are_one_transaction(node: BrokerProcess, topic: str) -> None:
    def produced(lines: bytes, *options: str) -> tuple[int, bytes]:
        done = ottla(node, "produce", topic, "--transactional-id", topic, *options, lines=lines)
        return done.returncode, done.stderr

    assert produced(b"a\nb\n") == (0, b"")
    status, message = produced(b'{"value": "c"}\nno JSON\n', "--json")
    assert (status, b"line 2" in message) == (1, True)
    committed = ottla(node, "consume", topic, "--isolation", "read-committed")
    assert (committed.returncode, sorted(committed.stdout.splitlines())) == (0, [b"a", b"b"])
    assert produced(b"", "--acks", "1")[0] == 2


def test_keys_headers_and_progress(node: BrokerProcess, peer: Peer, topic: str) -> None:
    arguments = [
        "produce",
        topic,
        "--key-separator",
        "\\t",
        "--header",
        "a=b=c",
        "--partition",
        "0",
        "--progress",
    ]
    done = ottla(node, *arguments, lines=b"k\tv\n")
    assert done.returncode == 0
    assert b"1 of 1 records delivered" in done.stderr
    (record,) = records_of(fetch(peer, topic))
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"b=c"),))
    ottla(node, "produce", topic, "--key", "same", "--partition", "1", lines=b"x\ny\n")
    assert {record.key for record in records_of(fetch(peer, topic, partition=1))} == {b"same"}


def test_what_consume_prints_produce_takes(node: BrokerProcess, peer: Peer, topic: str) -> None:
    ottla(node, "produce", topic, "--key-separator", ":", lines=b"a:1\nb:2\nc:3\n")
    printed = ottla(node, "consume", topic, "--json").stdout
    create_topic(peer, f"{topic}-copy", partitions=2)
    assert ottla(node, "produce", f"{topic}-copy", "--json", lines=printed).returncode == 0
    for partition in range(2):
        copied = records_of(fetch(peer, f"{topic}-copy", partition=partition))
        assert copied == records_of(fetch(peer, topic, partition=partition))


def test_a_line_that_cannot_be_understood_ends_it_after_what_came_before(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    done = ottla(
        node,
        "produce",
        topic,
        "--json",
        "--partition",
        "0",
        lines=b'{"value": "good"}\nbad\n{"value": "never"}\n',
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: line 2: it is not JSON")
    assert read_all(peer, topic) == [b"good"]


def test_records_that_were_not_delivered_are_counted(node: BrokerProcess, peer: Peer, topic: str) -> None:
    done = ottla(node, "produce", topic, "--partition", "7", lines=b"a\nb\n")
    assert done.returncode == 1
    assert b"2 of 2 records were not delivered: there is no partition 7" in done.stderr


def test_a_rate_is_kept(node: BrokerProcess, peer: Peer, topic: str) -> None:
    """No record goes out before its time: on a busy machine records are late, and the late ones follow each
    other closely.
    """
    begun = now_ms()
    done = ottla(node, "produce", topic, "--rate", "25", "--partition", "0", lines=b"x\n" * 26)
    assert done.returncode == 0
    stamps = [record.timestamp for record in records_of(fetch(peer, topic))]
    assert all(stamp - begun >= number * 40 for number, stamp in enumerate(stamps))
    assert len(stamps) == 26


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_delivers_what_was_read_though_more_may_come(
    node: BrokerProcess, peer: Peer, topic: str, how: signal.Signals, code: int
) -> None:
    command = [OTTLA, "produce", topic, "--partition", "0", "--bootstrap", node.bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        wait_until(lambda: read_all(peer, topic) == [b"typed"], "the line is delivered at once")
        process.send_signal(how)
        assert process.wait(20) == code
        assert process.stderr.read() == b""


def test_bench_writes_and_reads_and_measures(node: BrokerProcess, tmp_path: Path) -> None:
    name = f"load{next(NUMBERS)}"
    written = ottla(node, "bench", "produce", name, "--create", "--partitions", "3", "--records", "20000", "--keys", "7", "--json")  # fmt: skip
    assert written.returncode == 0, written.stderr
    summary = json.loads(written.stdout)
    assert summary["records"] == 20_000
    assert summary["failed"] == 0
    assert 0 < summary["latency_ms"]["p50"] <= summary["latency_ms"]["p99"] <= summary["latency_ms"]["max"]
    read = json.loads(ottla(node, "bench", "consume", name, "--json").stdout)
    assert read["records"] == 20_000
    assert read["mb_per_second"] > 0
    shown = ottla(node, "bench", "produce", name, "--seconds", "1.3", "--rate", "1000", "--size", "10")
    assert shown.returncode == 0
    assert b"records/s" in shown.stderr
    assert b"latency in ms: p50" in shown.stdout
    timed = json.loads(
        ottla(node, "bench", "consume", name, "--from", "latest", "--seconds", "0.3", "--json").stdout
    )
    assert timed["records"] == 0


def test_bench_of_a_topic_that_is_not_there_says_so(node: BrokerProcess) -> None:
    done = ottla(node, "bench", "consume", "nix")
    assert done.returncode == 1
    assert done.stderr == b'Error: there is no topic "nix" (UNKNOWN_TOPIC_OR_PARTITION)\n'
