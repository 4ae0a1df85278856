"""Reading for compaction: in pieces, checked, and not too fast (RET-5)."""

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import batch

from ottla.log.compaction.segment_reader import SegmentReader, Throttle
from ottla.records.batch import CorruptRecord

PATH = "/data/orders-0/00000000000000000000.log"


class Clock:
    """A time that passes only in sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []
        self.checks = 0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    def check(self) -> None:
        self.checks += 1

    def throttle(self, bytes_per_second: float) -> Throttle:
        return Throttle(bytes_per_second, self.read, self.sleep, self.check)


def test_a_throttle_lets_so_many_bytes_a_second_through() -> None:
    clock = Clock()
    throttle = clock.throttle(1000)
    for _ in range(50):
        throttle.spend(100)
    assert clock.now == pytest.approx(105.0)
    assert max(clock.sleeps) <= 0.1


def test_a_pause_is_made_up_for_by_a_second_at_most() -> None:
    clock = Clock()
    throttle = clock.throttle(1000)
    clock.now += 60
    throttle.spend(1000)
    assert clock.sleeps == []
    throttle.spend(1000)
    assert clock.now == pytest.approx(161.0)


def test_without_a_limit_nobody_sleeps_but_everybody_is_checked() -> None:
    clock = Clock()
    throttle = clock.throttle(1e308)
    for _ in range(10):
        throttle.spend(1 << 30)
    assert clock.sleeps == []
    assert clock.checks == 10


def reader(data: bytes, piece_bytes: int = 256, size_bytes: int | None = None) -> SegmentReader:
    disk = SimulatedDisk()
    disk.put(PATH, data)
    size = len(data) if size_bytes is None else size_bytes
    return SegmentReader(
        disk.open(PATH), PATH, size, range(12), piece_bytes=piece_bytes, throttle=Clock().throttle(1e308)
    )


BATCHES = [
    bytes(batch(count, base_offset=base, value=b"v" * size))
    for base, count, size in ((0, 1, 10), (1, 3, 20), (4, 2, 400), (6, 1, 0), (9, 1, 3000), (10, 2, 30))
]


@pytest.mark.parametrize("piece_bytes", [1, 61, 200, 1000, 1 << 20])
def test_every_batch_comes_whole_whatever_the_size_of_the_pieces(piece_bytes: int) -> None:
    found = list(reader(b"".join(BATCHES), piece_bytes).batches())
    assert [bytes(view.view()) for view, _ in found] == BATCHES
    assert [is_last for _, is_last in found] == [False] * (len(BATCHES) - 1) + [True]


def test_headers_are_found_without_reading_what_lies_between() -> None:
    data = b"".join(BATCHES)
    found = list(reader(data).headers())
    assert [header.base_offset for _, header in found] == [0, 1, 4, 6, 9, 10]
    position = found[4][0]
    assert bytes(reader(data).batch_at(position).view()) == BATCHES[4]


def test_what_was_appended_since_is_not_read() -> None:
    data = b"".join(BATCHES)
    size = len(BATCHES[0]) + len(BATCHES[1])
    assert len(list(reader(data, size_bytes=size).batches())) == 2


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda data: data[:-1], "shorter"),
        (lambda data: data[:70] + b"\xff" + data[71:], "checksum"),
        (lambda data: data[:16] + b"\x01" + data[17:], "magic"),
        (lambda data: data[:8] + b"\x7f" + data[9:], "cut off"),
        (lambda data: data[len(BATCHES[0]) :] + BATCHES[0], "not between"),
        (lambda data: b"\x01" + data[1:], "not between"),
        (
            lambda data: data[: -len(BATCHES[-1])] + bytes(batch(2, base_offset=11, value=b"v" * 30)),
            "not between",
        ),
    ],
)
def test_damage_is_named_with_its_place(spoil: object, what: str) -> None:
    data = b"".join(BATCHES)
    assert callable(spoil)
    with pytest.raises(CorruptRecord, match=what) as caught:
        list(reader(spoil(data), size_bytes=len(data)).batches())
    assert PATH in str(caught.value)
