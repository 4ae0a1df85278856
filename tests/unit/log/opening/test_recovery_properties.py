"""After any damage of the files, the served records are those that were written (STO-4, STO-9).

Every test here draws its scenario from a seed that hypothesis prints when it fails.
"""

from contextlib import suppress
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedCrash, SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import DIRECTORY, append, content, open_log, read_all

from ottla.config import TopicConfig
from ottla.log.log import Log
from ottla.log.plan.retention import Deletion, Reason, RetentionPlan
from ottla.log.writing.append import Appended

SMALL = TopicConfig(segment_bytes=1200, index_interval_bytes=250, segment_index_bytes=400)
SEEDS = st.integers(min_value=0, max_value=2**32)


def random_batch(random: Random, sequence: int) -> bytearray:
    """A batch like no other, of a producer that counts on."""
    is_idempotent = random.random() < 0.7
    return batch(
        random.randint(1, 4),
        value=random.randbytes(random.randint(0, 90)),
        timestamp=NOW_MS + random.randint(-5000, 5000),
        producer_id=1 if is_idempotent else -1,
        producer_epoch=0 if is_idempotent else -1,
        sequence=sequence if is_idempotent else -1,
    )


def filled(random: Random, disk: SimulatedDisk, count: int) -> Log:
    """A log of several segments."""
    log = open_log(disk, settings=SMALL)
    sequence = 0
    for number in range(count):
        data = random_batch(random, sequence)
        (answer,) = append(log, data, leader_epoch=number // 7)
        if data[43:51] == b"\0" * 7 + b"\1":
            sequence += answer.last_offset - answer.base_offset + 1
    return log


def segment_of(log: Log, path: str) -> dict[int, tuple[int, int]]:
    """(start, end) of each batch in one .log file by base offset."""
    for segment in log.extent.segments:
        if segment.path(".log") == path:
            return {placed.header.base_offset: (placed.position, placed.end) for placed in segment.walk()}
    return {}


@dataclass(frozen=True)
class Spoiled:
    """The damage done to each file."""

    path: str
    kind: str
    start: int
    end: int


def spoil(random: Random, disk: SimulatedDisk) -> Spoiled:
    """Damage one file somewhere."""
    path = random.choice([path for path in disk.paths(DIRECTORY) if len(disk.content(path))])
    data = disk.content(path)
    start = random.randrange(len(data))
    kind = random.choice(("cut", "flip", "zero", "garbage", "grow"))
    end = min(len(data), start + random.choice((1, 8, 61, 200)))
    match kind:
        case "cut":
            end = len(data)
            del data[start:]
        case "flip":
            end = start + 1
            data[start] ^= 1 << random.randrange(8)
        case "zero":
            before = bytes(data[start:end])
            data[start:end] = bytes(end - start)
            if before == data[start:end]:
                kind = "nothing"
        case "garbage":
            data[start:end] = random.randbytes(end - start)
        case "grow":
            start = end = len(data)
            data += random.choice((bytes(500), random.randbytes(500)))
    return Spoiled(path, kind, start, end)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_after_any_damage_all_whole_batches_are_served_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = filled(random, disk, random.randint(1, 40))
    written = content(log)
    end = log.log_end_offset
    places = {path: segment_of(log, path) for path in disk.paths(DIRECTORY)}
    disk = disk.kill()
    spoiled = spoil(random, disk)
    touched = {
        offset
        for offset, (start, stop) in places[spoiled.path].items()
        if start < spoiled.end and spoiled.start < stop
    }
    reopened = open_log(disk, settings=SMALL, clean=False, recovery_point=0)
    served = content(reopened)
    # A flip in a batch's base offset or leader epoch is outside its checksum.
    altered = {offset for offset in served if written.get(offset) != served[offset]}
    assert all(served[offset][16:] in {data[16:] for data in written.values()} for offset in served), spoiled
    assert len(altered) <= len(touched), spoiled
    assert {offset: written[offset] for offset in written if offset not in touched} == {
        offset: data for offset, data in served.items() if offset not in touched | altered
    }, spoiled
    (answer,) = append(reopened, batch())
    assert answer.base_offset >= max((b.next_offset for b in read_all(reopened)[:-1]), default=0)
    if spoiled.kind != "cut" and not touched:
        assert answer.base_offset == end


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_flushed_offsets_are_never_given_out_again_whatever_is_damaged(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = filled(random, disk, random.randint(1, 40))
    log.durability.flush()
    flushed = log.durability.flushed_offset
    append(log, batch(3))
    disk = disk.kill()
    spoil(random, disk)
    spoil(random, disk)
    reopened = open_log(disk, settings=SMALL, clean=False, recovery_point=flushed)
    (answer,) = append(reopened, batch())
    assert answer.base_offset >= flushed


class Story:
    """A log that lives through random events, and what must be true of it afterwards."""

    def __init__(self, random: Random, disk: SimulatedDisk) -> None:
        self.random = random
        self.disk = disk
        self.written: dict[int, set[bytes]] = {}
        self.flushed: dict[int, bytes] = {}
        self.recovery_point = 0
        self.log_start_offset = 0
        self.sequence = 0

    def run(self, log: Log, events: int) -> None:
        for _ in range(events):
            event = self.random.choices(
                (self.append, self.flush, self.roll, self.retain, self.truncate), (10, 3, 1, 1, 1)
            )[0]
            event(log)

    def append(self, log: Log) -> None:
        offset = log.log_end_offset
        items = []
        for _ in range(self.random.randint(1, 4)):
            data = batch(
                self.random.randint(1, 3),
                value=self.random.randbytes(self.random.randint(0, 150)),
                base_offset=offset,
                leader_epoch=0,
            )
            # Noted before it is written: after a crash it may be there or not.
            self.written.setdefault(offset, set()).add(bytes(data))
            offset += int.from_bytes(data[57:61], "big")
            items.append(memoryview(data))
        for answer in log.append(items, leader_epoch=0, now_ms=NOW_MS):
            assert isinstance(answer, Appended)

    def flush(self, log: Log) -> None:
        before = content(log)
        log.durability.flush()
        self.flushed = before
        self.recovery_point = log.durability.flushed_offset

    def roll(self, log: Log) -> None:
        log.roll(NOW_MS)

    def retain(self, log: Log) -> None:
        bases = [segment.base_offset for segment in log.extent.segments][:-1]
        gone = bases[: self.random.randint(0, len(bases))]
        if not gone:
            return
        start = log.extent.segments[len(gone)].base_offset
        self.log_start_offset = start
        self.flushed = {offset: data for offset, data in self.flushed.items() if offset >= start}
        plan = RetentionPlan(tuple(Deletion(base, Reason.SIZE) for base in gone), start, False)
        log.retention.delete_segments(plan, NOW_MS)
        log.retention.remove_deleted(NOW_MS + 10 * log.tail.config.file_delete_delay_ms)

    def truncate(self, log: Log) -> None:
        offset = self.random.choice([log.log_end_offset, *content(log)])
        # The checkpoint comes before the cut, and the cut lies between two batches, where epochs begin and
        # end.
        self.recovery_point = min(self.recovery_point, offset)
        self.flushed = {
            base: data
            for base, data in self.flushed.items()
            if base + int.from_bytes(data[57:61], "big") <= offset
        }
        log.truncate_to(offset)

    def check(self, log: Log) -> None:
        served = content(log)
        for offset, data in served.items():
            assert data in self.written[offset], f"offset {offset} was invented"
        for offset, data in self.flushed.items():
            assert served.get(offset) == data, f"offset {offset} was flushed and is gone"
        assert log.log_end_offset >= self.recovery_point


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_a_power_loss_at_any_moment_takes_nothing_that_was_flushed(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    story = Story(random, disk)
    disk.crash_at = random.randint(1, 120)
    with suppress(SimulatedCrash):
        story.run(open_log(disk, settings=SMALL), 30)
    after = disk.crash(random)
    if not after.exists(DIRECTORY):
        return
    reopened = open_log(
        after,
        settings=SMALL,
        clean=False,
        recovery_point=story.recovery_point,
        log_start_offset=story.log_start_offset,
    )
    story.check(reopened)
    story.append(reopened)
    story.check(reopened)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_second_power_loss_during_recovery_changes_nothing(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    story = Story(random, disk)
    story.run(open_log(disk, settings=SMALL), 15)
    for _ in range(3):
        disk = disk.crash(random)
        disk.crash_at = random.randint(1, 40)
        try:
            open_log(
                disk,
                settings=SMALL,
                clean=False,
                recovery_point=story.recovery_point,
                log_start_offset=story.log_start_offset,
            )
        except SimulatedCrash:
            continue
        disk.crash_at = None
    disk = disk.crash(random)
    reopened = open_log(
        disk,
        settings=SMALL,
        clean=False,
        recovery_point=story.recovery_point,
        log_start_offset=story.log_start_offset,
    )
    story.check(reopened)
