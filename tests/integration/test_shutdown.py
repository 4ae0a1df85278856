"""How a broker begins and ends: in a second, with everything it acknowledged, and nothing to check (STO-9,
OPS-1).
"""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    describe_topic,
    fetch_request,
    produce,
    produce_request,
    read_all,
)
from tests.integration.processor_waits import Stopwatch, took_undisturbed_s
from tests.integration.troubled_disk import TroubledDisk

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest

CLEAN_MARK = ".kafka_cleanshutdown"
LIMIT_S = 1.0
PARTITIONS = 4


class Load:
    """A producer that sends until its broker is gone, and remembers what was acknowledged."""

    def __init__(self, port: int, partition: int, acks: int) -> None:
        self.partition = partition
        self.acknowledged: dict[int, bytes] = {}
        self._port = port
        self._acks = acks
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        with Peer(self._port) as peer:
            try:
                while True:
                    values = [b"%d:%d" % (self.partition, number + step) for step in range(5)]
                    peer.socket.sendall(
                        b"".join(
                            peer.frame(
                                ApiKey.PRODUCE,
                                9,
                                produce_request("t", batch(value), partition=self.partition, acks=self._acks),
                            )
                            for value in values
                        )
                    )
                    for value in values:
                        answer = peer.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0]
                        assert answer.error_code == 0
                        self.acknowledged[answer.base_offset] = value
                    number += 5
            except (ConnectionError, TimeoutError):
                return


@contextmanager
def under_load(port: int) -> Iterator[list[Load]]:
    loads = [Load(port, number, acks=(-1, 1)[number % 2]) for number in range(PARTITIONS)]
    try:
        wait_until(lambda: all(len(load.acknowledged) > 20 for load in loads), "all of them produce")
        yield loads
    finally:
        for load in loads:
            load.join()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_and_with_long_polls_takes_a_second_and_loses_nothing(
    tmp_path: Path, how: signal.Signals
) -> None:
    broker = start_broker(tmp_path / "data", {"log.segment.bytes": "100000"})
    with running(broker), ExitStack() as stack:
        with Peer(broker.port) as peer:
            create_topic(peer, "t", partitions=PARTITIONS)
            create_topic(peer, "silent")
        for _ in range(30):
            reader = stack.enter_context(Peer(broker.port))
            reader.send(ApiKey.FETCH, 12, fetch_request(("silent", 0, 0), max_wait_ms=60_000))
        with under_load(broker.port) as loads:
            broker.process.send_signal(how)
            assert took_undisturbed_s(lambda: broker.process.wait(20), broker.pid) < LIMIT_S
        assert broker.process.returncode == 0
        assert (tmp_path / "data" / CLEAN_MARK).exists()
    with running(start_broker(tmp_path / "data")) as again, Peer(again.port) as peer:
        for load in loads:
            stored = read_all(peer, "t", load.partition)
            assert all(stored[offset] == value for offset, value in load.acknowledged.items())
        assert warnings_of(again) == [], "a clean start has nothing to say about the logs"


def warnings_of(broker: BrokerProcess) -> list[str]:
    """What it complained of: recovery, damage, anything."""
    return [line for line in broker.said().splitlines() if " WARNING " in line or " ERROR " in line]


def test_a_long_poll_is_answered_when_the_broker_stops(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "data") as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        peer.send(ApiKey.FETCH, 12, fetch_request(("t", 0, 0), max_wait_ms=60_000))
        wait_until(lambda: len(broker.partition("t").waiters.readers) == 1, "the fetch waits")
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        assert peer.receive(ApiKey.FETCH, 12)[1].responses[0].partitions[0].error_code == 0
        assert peer.is_closed()
        stopping.join()


def test_a_reader_that_takes_nothing_does_not_hold_the_stop_up(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "data") as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        for _ in range(12):
            produce(peer, "t", batch(bytes(1_000_000)))
        with Peer(broker.port, receive_buffer_bytes=4096) as stuck:
            stuck.send(ApiKey.FETCH, 12, fetch_request(("t", 0, 0)))
            peer.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
            assert took_undisturbed_s(broker.stop) < LIMIT_S
        assert (tmp_path / "data" / CLEAN_MARK).exists()


def test_nobody_is_served_before_the_broker_has_registered(tmp_path: Path) -> None:
    """A client that is told of no brokers at all gives up (librdkafka #5303)."""
    disk = TroubledDisk()
    data = tmp_path / "data"
    with broker_thread(data) as first, Peer(first.port) as peer:
        create_topic(peer, "t")
        port = first.port
    (data / CLEAN_MARK).unlink()
    disk.holds_sync = lambda path: "__cluster_metadata" in path and path.endswith(".log")
    disk.may_sync.clear()
    started: list[BrokerThread] = []
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    starting = threading.Thread(target=lambda: started.append(BrokerThread(data, settings, disk)))
    starting.start()
    try:
        wait_until(lambda: any("__cluster_metadata" in path for path in disk.syncs), "it registers")
        with Peer(port) as early:
            early.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
            early.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                early.receive(ApiKey.METADATA, 9)
            early.socket.settimeout(10)
            disk.may_sync.set()
            answer = early.receive(ApiKey.METADATA, 9)[1]
            assert [(found.node_id, found.port) for found in answer.brokers] == [(1, port)]
            assert answer.topics[0].partitions[0].leader_epoch == 1
    finally:
        disk.may_sync.set()
        starting.join()
        for broker in started:
            broker.stop()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start_broker(tmp_path_factory.mktemp("first") / "data")) as broker:
        yield broker


class TestRefusals:
    def refused(self, data: Path, port: int) -> str:
        """What a broker says that must not start."""
        command = [str(Path(sys.executable).with_name("ottla")), "serve", "--host", "127.0.0.1"]
        command += ["--data", str(data), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.splitlines()
        return line

    def test_a_second_broker_on_the_same_data_is_told_who_has_it(self, first: BrokerProcess) -> None:
        said = self.refused(first.data, 0)
        assert f"in use by process {first.pid}" in said
        with Peer(first.port) as peer:
            assert peer.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers

    def test_a_second_broker_on_the_same_port_is_told_so_and_leaves_its_data_clean(
        self, first: BrokerProcess, tmp_path: Path
    ) -> None:
        data = tmp_path / "data"
        with broker_thread(data) as own, Peer(own.port) as peer:
            create_topic(peer, "t")
        said = self.refused(data, first.port)
        assert f"Port {first.port}" in said
        assert "in use" in said
        with broker_thread(data) as own, Peer(own.port) as peer:
            assert describe_topic(peer, "t").partitions[0].leader_epoch == 0, (
                "nothing was lost, and none told so"
            )


def test_a_start_that_fails_half_way_does_not_call_the_unopened_logs_clean(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = start_broker(data)
    with running(broker), Peer(broker.port) as peer:
        create_topic(peer, "a")
        create_topic(peer, "b")
        for name in ("a", "b"):
            produce(peer, name, batch(b"kept"))
        broker.kill()
    torn = data / "b-0" / f"{0:020}.log"
    torn.write_bytes(torn.read_bytes() + b"torn by the crash")
    index = data / "a-0" / f"{0:020}.log"
    kept = index.read_bytes()
    index.unlink()
    index.mkdir()
    try:
        with pytest.raises(OSError, match="directory"):
            BrokerThread(data, {})
    finally:
        index.rmdir()
        index.write_bytes(kept)
    assert not (data / CLEAN_MARK).exists()
    with broker_thread(data) as again, Peer(again.port) as peer:
        assert produce(peer, "b", batch(b"next")).base_offset == 1
        assert read_all(peer, "b") == [b"kept", b"next"]
        assert read_all(peer, "a") == [b"kept"]


def test_only_a_start_after_a_crash_reads_records(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker_thread(data) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t", segment_bytes=5000)
        for _ in range(50):
            produce(peer, "t", batch(bytes(2000)))
    disk = TroubledDisk()
    with broker_thread(data, disk=disk):
        assert disk.read_of("t") < 10_000, "no more than behind the last entry of the last index"
    (data / CLEAN_MARK).unlink()
    (data / "recovery-point-offset-checkpoint").unlink()
    with broker_thread(data, disk=disk):
        assert disk.read_of("t") > 100_000


def test_it_is_ready_soon(tmp_path: Path) -> None:
    watch = Stopwatch()
    with running(start_broker(tmp_path / "data")) as broker:
        watch.add(broker.pid)
        assert watch.seconds < 5


def test_a_topic_of_many_partitions_is_created_and_closed_without_waiting_for_the_disk(
    tmp_path: Path,
) -> None:
    disk = TroubledDisk()
    with broker_thread(tmp_path / "data", disk=disk) as broker, Peer(broker.port) as peer:
        create_topic(peer, "many", partitions=200)
        assert [path for path in disk.syncs if "/many-" in path] == []
        produce(peer, "many", batch(b"v"), partition=7)
    synced = {Path(path).parent.name for path in disk.syncs if "/many-" in path}
    assert synced == {"many-7"}
    assert (tmp_path / "data" / CLEAN_MARK).exists()
    with broker_thread(tmp_path / "data") as broker, Peer(broker.port) as peer:
        assert read_all(peer, "many", 7) == [b"v"]
        assert read_all(peer, "many", 199) == []
