"""Whatever happens to a log, a reader of committed records sees them all and no aborted one (EOS-2, STO-9).

Every test here draws its scenario from a seed that hypothesis prints when it fails.
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, read_all, replicate
from tests.unit.log.transactional import committed, end, sent

from ottla.errors import KafkaError
from ottla.log.log import Log
from ottla.records.control import marker_of

SMALL = config(segment_bytes=900, index_interval_bytes=200, segment_index_bytes=1200)
SEEDS = st.integers(min_value=0, max_value=2**32)


@dataclass
class Fates:
    """The story of each transaction, read from the batches of a log."""

    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    committed_bases: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, log: Log) -> "Fates":
        fates = cls()
        pending: dict[int, list[int]] = {}
        for found in read_all(log):
            producer = found.producer_id
            marker = marker_of(found) if found.is_control else None
            if marker is not None:
                bases = pending.pop(producer, [])
                if marker.is_commit:
                    fates.committed_bases.update(bases)
                elif bases:
                    fates.aborted.append((producer, bases[0], found.base_offset))
            elif found.is_transactional:
                pending.setdefault(producer, []).append(found.base_offset)
            else:
                fates.committed_bases.add(found.base_offset)
        fates.open = {producer: bases[0] for producer, bases in pending.items()}
        return fates


class Writer:
    """Appends random transactions to one log."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def append(self, log: Log) -> None:
        random = self.random
        producer = random.randint(1, 4)
        entry = log.producers.get(producer)
        epoch = 0 if entry is None else entry.epoch
        action = random.random()
        if action < 0.35:
            bump = random.random() < 0.3
            end(log, commit=random.random() < 0.5, producer=producer, epoch=epoch + bump)
        elif action < 0.9:
            sequence = 0 if entry is None else entry.next_sequence
            append(log, sent(sequence, random.randint(1, 3), producer=producer, epoch=epoch))
        else:
            append(log, batch(random.randint(1, 3)))


def check(log: Log, random: Random) -> None:
    """Compare the log's answers with the story that its batches tell."""
    replicate(log)
    fates = Fates.of(log)
    assert log.first_unstable_offset == min(fates.open.values(), default=None)
    upper = log.log_end_offset if log.first_unstable_offset is None else log.first_unstable_offset
    for _ in range(3):
        start, stop = sorted((random.randint(0, upper), random.randint(0, upper)))
        found = [tuple(entry)[:3] for entry in log.aborted_transactions(start, stop)]
        assert found == [each for each in fates.aborted if each[2] >= start and each[1] < stop]
    seen = {each.base_offset for each in committed(log, log.log_start_offset, upper)}
    assert seen == {base for base in fates.committed_bases if base < upper}


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_after_crashes_truncations_and_restarts_the_aborted_transactions_are_known(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    writer = Writer(random)
    for _ in range(random.randint(1, 4)):
        for _ in range(random.randint(1, 25)):
            writer.append(log)
        check(log, random)
        action = random.choice(("truncate", "restart", "kill", "power", "flush"))
        if action == "truncate":
            log.truncate_to(random.randint(0, log.log_end_offset))
        elif action == "restart":
            end_offset = log.log_end_offset
            log.close()
            log = open_log(disk, settings=SMALL, recovery_point=end_offset)
        elif action == "flush":
            log.durability.flush()
        else:
            recovery_point = log.durability.flushed_offset
            disk = disk.kill() if action == "kill" else disk.crash(random)
            log = open_log(disk, settings=SMALL, clean=False, recovery_point=recovery_point)
        check(log, random)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_damaged_index_is_rebuilt(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    writer = Writer(random)
    for _ in range(60):
        writer.append(log)
    log.close()
    indexes = disk.files_named((".txnindex",))
    if indexes:
        content = disk.content(random.choice(indexes))
        del content[random.randrange(len(content)) :]
        content += b"\x7f" * random.choice((1, 34 - len(content) % 34))
    again = open_log(disk, settings=SMALL, recovery_point=log.log_end_offset)
    check(again, random)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_failing_disk_leaves_no_marker_without_its_entry(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    writer = Writer(random)
    for _ in range(40):
        if random.random() < 0.2:
            disk.failures = {disk.operations + random.randint(1, 2): 28}
        try:
            writer.append(log)
        except KafkaError:
            if log.status.refusal is not None:
                return
        disk.failures = {}
    check(log, random)
    check(open_log(disk.kill(), settings=SMALL, clean=False), random)


def test_time_is_not_what_orders_transactions() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0, producer=2), now_ms=NOW_MS + 5)
    append(log, sent(0, producer=1))
    replicate(log)
    assert [each.producer_id for each in log.producers.transactions.open_ones()] == [2, 1]
