"""Acknowledged means durable wherever the policy says so, and one fsync serves everybody who waits
(STO-10).
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, alter_config, batch, create_topic, produce, produce_request
from tests.integration.troubled_disk import TroubledDisk

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey

CHECKPOINT_INTERVAL_MS = 50


@pytest.fixture(scope="module")
def disk() -> TroubledDisk:
    return TroubledDisk()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flush") / "data"


@pytest.fixture(scope="module")
def served(disk: TroubledDisk, data: Path) -> Iterator[BrokerThread]:
    settings = {"log.flush.offset.checkpoint.interval.ms": str(CHECKPOINT_INTERVAL_MS)}
    with broker_thread(data, settings, disk) as broker:
        yield broker
        disk.may_sync.set()


@pytest.fixture
def held(disk: TroubledDisk) -> Iterator[TroubledDisk]:
    """No fsync returns until the test says so."""
    disk.may_sync.clear()
    yield disk
    disk.may_sync.set()


def flushed_offset(served: BrokerThread, topic: str) -> int:
    return served.call(lambda: served.log(topic).durability.flushed_offset)


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_1_what_is_acknowledged_is_durable(
    served: BrokerThread, peer: Peer, topic: str, acks: int
) -> None:
    create_topic(peer, topic, flush_messages=1)
    for number in range(1, 6):
        assert produce(peer, topic, batch(b"v"), acks=acks).error_code == 0
        assert flushed_offset(served, topic) >= number


def test_with_flush_on_acks_all_only_acks_all_waits_for_the_disk(
    served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk
) -> None:
    create_topic(peer, topic, ottla_flush_on_acks_all="true")
    with Peer(served.port) as durable:
        disk.may_sync.clear()
        try:
            durable.send(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"durable"), acks=-1))
            wait_until(lambda: disk.syncs_of(topic) > 0, "the fsync has begun")
            assert produce(peer, topic, batch(b"fast"), acks=1).base_offset == 1
            assert flushed_offset(served, topic) == 0
        finally:
            disk.may_sync.set()
        _, answer = durable.receive(ApiKey.PRODUCE, 9)
    assert answer.responses[0].partition_responses[0].base_offset == 0
    assert flushed_offset(served, topic) >= 1


def test_one_fsync_serves_many_producers(
    served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk
) -> None:
    create_topic(peer, topic, flush_messages=1)
    producers = 25
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(served.port)) for _ in range(producers)]
        disk.may_sync.clear()
        try:
            for number, one in enumerate(peers):
                one.send(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"%d" % number)))
            wait_until(
                lambda: served.call(lambda: served.log(topic).log_end_offset) == producers, "all are written"
            )
        finally:
            disk.may_sync.set()
        answers = [one.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0] for one in peers]
    assert sorted(answer.base_offset for answer in answers) == list(range(producers))
    assert {answer.error_code for answer in answers} == {0}
    assert flushed_offset(served, topic) == producers
    # One was under way when the others came; the next one served all of them.
    assert disk.syncs_of(topic) <= 2


def test_many_pipelined_requests_of_one_producer_need_few_fsyncs(
    served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk
) -> None:
    create_topic(peer, topic, flush_messages=1)
    count = 300
    peer.socket.sendall(
        b"".join(peer.frame(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"v"))) for _ in range(count))
    )
    for _ in range(count):
        assert peer.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0].error_code == 0
    assert flushed_offset(served, topic) == count
    assert disk.syncs_of(topic) < count / 3


def test_flush_ms_makes_records_durable_after_a_while(served: BrokerThread, peer: Peer, topic: str) -> None:
    never = f"{topic}-never"
    create_topic(peer, never)
    create_topic(peer, topic, flush_ms=500)
    produce(peer, never, batch(b"v"))
    produce(peer, topic, batch(b"v"))
    assert flushed_offset(served, topic) == 0
    wait_until(lambda: flushed_offset(served, topic) == 1, "flush.ms has passed")
    assert flushed_offset(served, never) == 0


def test_flush_messages_counts_records(served: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, flush_messages=10)
    produce(peer, topic, batch(*[b"v"] * 9))
    assert flushed_offset(served, topic) == 0
    produce(peer, topic, batch(b"v"))
    wait_until(lambda: flushed_offset(served, topic) == 10, "the tenth record is there")


def test_flush_bytes_counts_bytes(served: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, ottla_flush_bytes=10_000)
    produce(peer, topic, batch(bytes(9_000)))
    assert flushed_offset(served, topic) == 0
    produce(peer, topic, batch(bytes(2_000)))
    wait_until(lambda: flushed_offset(served, topic) == 2, "more than 10,000 bytes are there")


def test_a_full_segment_is_flushed_whatever_the_policy(served: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, segment_bytes=4096)
    for _ in range(5):
        produce(peer, topic, batch(bytes(1500)))
    wait_until(lambda: flushed_offset(served, topic) >= 4, "the full segments are flushed")


def test_a_policy_changed_at_run_time_holds_from_the_next_request_on(
    served: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    produce(peer, topic, batch(b"v"))
    assert flushed_offset(served, topic) == 0
    alter_config(peer, topic, "flush.messages", "1")
    produce(peer, topic, batch(b"v"))
    assert flushed_offset(served, topic) == 2


def test_a_producer_that_cannot_wait_so_long_is_told_and_the_record_becomes_durable_later(
    served: BrokerThread, peer: Peer, topic: str, held: TroubledDisk
) -> None:
    held.may_sync.set()
    create_topic(peer, topic, flush_messages=1)
    held.may_sync.clear()
    late = produce(peer, topic, batch(b"v"), timeout_ms=100)
    assert (late.error_code, late.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    held.may_sync.set()
    wait_until(lambda: flushed_offset(served, topic) == 1, "the fsync came in the end")


def test_the_recovery_point_is_written_down_and_never_beyond_what_is_durable(
    served: BrokerThread, peer: Peer, topic: str, data: Path
) -> None:
    create_topic(peer, topic, flush_messages=1)
    create_topic(peer, f"{topic}-never")
    produce(peer, topic, batch(b"a", b"b"))
    produce(peer, f"{topic}-never", batch(b"a", b"b"))

    def recovery_points() -> list[str]:
        return (data / "recovery-point-offset-checkpoint").read_text().splitlines()

    wait_until(lambda: f"{topic} 0 2" in recovery_points(), "the checkpoint is written")
    assert f"{topic}-never 0 0" in recovery_points()
