"""Tiered storage in the simulation: shipped brokers, and an object store that lies.

Every story ends with the same question: is every acknowledged record read at its offset, through a client, with a
store that does what it says again? And the store is looked into: what the metadata calls copied must be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from tests.simulation.promises.stage import TOPIC, Stage
from tests.simulation.world.disk import SimulatedCrash
from tests.simulation.world.node import Node

from ottla.controller.remote_log import RemoteLog, RemoteSegment
from ottla.log.tiers.object_names import KINDS, object_name
from ottla.records.batch import iter_batches
from ottla.server.partitions.hosted_partition import HostedPartition

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "ottla.remote.store.url": "memory:///",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "log.index.size.max.bytes": "2048",
    "ottla.remote.cache.bytes": "1048576",
    "ottla.remote.read.bytes": "65536",
}
TOPIC_SETTINGS = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
    "segment.bytes": "700",
    "min.insync.replicas": "2",
}


@contextmanager
def stage(seed: int) -> Iterator[Stage]:
    made = Stage(seed, TOPIC_SETTINGS, settings=SETTINGS)
    try:
        yield made
    finally:
        made.end()


def hosted(node: Node) -> HostedPartition | None:
    return node.broker.partitions.find(TOPIC, 0) if node.broker is not None and node.is_ready else None


def led(stage: Stage) -> HostedPartition:
    found = hosted(stage.leader)
    assert found is not None
    return found


def remote(stage: Stage) -> RemoteLog:
    tier = led(stage).tier
    assert tier is not None
    return tier.remote


def await_tiered(stage: Stage) -> None:
    """Wait until all closed segments are in the store only."""

    def is_done() -> bool:
        found = hosted(stage.leader)
        if found is None or found.tier is None or not found.replica.is_leader:
            return False
        active = found.log.extent.segments.active.base_offset
        is_copied = (found.tier.remote.next_offset or found.log.log_start_offset) >= active
        return is_copied and found.log.log_start_offset >= active and not found.tier.remote.deleting

    stage.await_that(is_done)


def name(stage: Stage, segment: RemoteSegment, kind: str) -> str:
    place = led(stage)
    return object_name(TOPIC, place.topic_id, 0, segment.base_offset, segment.segment_id, kind)


def look_into_the_store(stage: Stage, start: int = 0) -> None:
    """What is called copied is there, has the acknowledged records, and follows without a gap."""
    log = remote(stage)
    expected = log.first_offset
    for segment in log.segments:
        assert expected is not None
        assert segment.base_offset <= expected
        data = stage.world.store.objects[name(stage, segment, ".log")]
        for batch in iter_batches(data):
            for record in batch.records():
                if start <= record.offset < segment.next_offset:
                    assert int(record.value or b"") == stage.written[record.offset]
        for each in segment.objects:
            assert len(stage.world.store.objects[name(stage, segment, each.kind)]) == each.size_bytes
        expected = segment.next_offset


def orphans(stage: Stage) -> set[str]:
    named = {name(stage, segment, kind) for _, segment in remote(stage).all_segments() for kind in KINDS}
    return {*stage.world.store.objects} - named


def all_is_read(stage: Stage, start: int = 0) -> None:
    """The end of every story."""
    stage.world.store.share, stage.world.store.is_down = 0.0, False
    stage.world.store.before_put = lambda name: None
    stage.restart()
    stage.await_isr(*stage.replicas)
    await_tiered(stage)
    assert stage.read(start) == stage.written[start:]
    look_into_the_store(stage, start)


@pytest.mark.parametrize("seed", range(2))
def test_a_lying_store_costs_neither_writes_nor_records(seed: int) -> None:
    with stage(seed) as played:
        for share in (0.1, 0.5, 0.9):
            played.world.store.share = share
            played.write(60)
        assert played.world.store.puts
        all_is_read(played)
        assert not orphans(played)


def test_a_store_that_is_down_holds_nothing_up_and_keeps_local_segments() -> None:
    with stage(3) as played:
        played.world.store.is_down = True
        played.write(80)
        assert led(played).log.log_start_offset == 0
        assert played.read() == played.written
        all_is_read(played)


def test_a_leader_that_dies_in_the_middle_of_a_copy_leaves_nothing_that_is_trusted() -> None:
    with stage(4) as played:
        for dies_after in (1, 3, 4):
            kill_in_copy(played, dies_after)
            played.write(60)
            played.restart()
        all_is_read(played)
        assert not orphans(played)


def kill_in_copy(played: Stage, puts: int) -> None:
    """The process that writes ends before one of its next writes."""
    counted = 0

    def before_put(name: str) -> None:
        nonlocal counted
        counted += 1
        if counted == puts:
            played.world.store.before_put = lambda name: None
            played.leader_now().kill()
            raise SimulatedCrash

    played.world.store.before_put = before_put


def test_a_wiped_broker_copies_the_local_part_only_and_may_lead() -> None:
    with stage(5) as played:
        played.write(150)
        await_tiered(played)
        follower = next(number for number in played.replicas if number != played.leader.number)
        played.lose_disk(follower)
        played.restart()
        played.await_isr(*played.replicas)
        found = hosted(played.node(follower))
        assert found is not None
        assert found.log.log_start_offset > 100
        assert found.log.log_end_offset == len(played.written)
        others = [number for number in played.replicas if number != follower]
        played.kill(*others[:1])
        played.write(5)
        all_is_read(played)


def test_deleted_records_stay_deleted_whoever_leads() -> None:
    with stage(6) as played:
        played.write(90)
        await_tiered(played)
        played.delete_before(40)
        assert remote(played).first_offset == 40
        played.kill(played.leader.number)
        played.write(30)
        all_is_read(played, start=40)
        assert remote(played).first_offset == 40
        assert not orphans(played)


@pytest.mark.parametrize("seed", range(10, 13))
def test_everything_at_once(seed: int) -> None:
    """Leaders killed, disks wiped, the store lying and down, records deleted: by the seed."""
    dice = Random(seed)
    start = 0
    with stage(seed) as played:
        for _ in range(8):
            played.world.store.share = dice.choice((0.0, 0.2, 0.6))
            played.world.store.is_down = dice.random() < 0.15
            played.write(dice.randrange(10, 50))
            fate = dice.choice(("kill-leader", "wipe-follower", "kill-in-copy", "delete", "rest", "none"))
            start = befall(played, fate, dice, start)
        all_is_read(played, start)
        for each in orphans(played):
            assert len(played.world.store.puts[each]) == 1, "a name was written with different bytes"


def befall(played: Stage, fate: str, dice: Random, start: int) -> int:
    if fate == "kill-leader":
        played.kill(played.leader.number)
        played.write(5)
        played.restart()
        played.await_isr(*played.replicas)
    elif fate == "wipe-follower":
        leader = played.leader.number
        played.lose_disk(next(number for number in played.replicas if number != leader))
        played.restart()
        played.await_isr(*played.replicas)
    elif fate == "kill-in-copy":
        kill_in_copy(played, dice.randrange(1, 6))
        played.write(20)
        played.world.store.before_put = lambda name: None
        played.restart()
        played.await_isr(*played.replicas)
    elif fate == "delete":
        start = max(start, dice.randrange(len(played.written)))
        played.delete_before(start)
    elif fate == "rest":
        played.world.run(lambda: False, played.world.now + dice.random() * 3)
    return start
