"""Leader epochs and where they begin (REP-6)."""

import pytest
from tests.simulation.world.disk import SimulatedDisk

from ottla.log.files.checkpoint import CheckpointError
from ottla.log.segments.leader_epochs import LeaderEpochs

PATH = "/data/t-0/leader-epoch-checkpoint"


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    disk = SimulatedDisk()
    disk.mkdir("/data/t-0")
    found = LeaderEpochs(disk, PATH)
    for epoch, start_offset in entries:
        found.assign(epoch, start_offset)
    return found


def test_the_end_of_an_epoch_is_the_start_of_the_next_and_of_the_last_the_end_of_the_log() -> None:
    known = epochs((1, 0), (3, 10), (7, 25))
    assert known.end_offset_for(7, 40) == (7, 40)
    assert known.end_offset_for(3, 40) == (3, 25)
    assert known.end_offset_for(5, 40) == (3, 25)
    assert known.end_offset_for(1, 40) == (1, 10)
    assert known.end_offset_for(0, 40) == (0, 0)


def test_an_unknown_epoch_has_no_end() -> None:
    assert epochs((1, 0)).end_offset_for(2, 40) == (-1, -1)
    assert epochs((1, 0)).end_offset_for(-1, 40) == (-1, -1)
    assert epochs().end_offset_for(0, 40) == (-1, -1)


def test_the_epoch_of_an_offset_is_the_last_that_began_before_it() -> None:
    known = epochs((1, 5), (3, 10))
    assert [known.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 3, 3]


def test_an_epoch_in_which_nothing_was_written_gives_way() -> None:
    assert epochs((1, 0), (3, 10), (4, 10)).entries == [(1, 0), (4, 10)]
    assert epochs((1, 0), (3, 10), (2, 15)).entries == [(1, 0), (3, 10)]


def test_cutting_the_end_and_the_start() -> None:
    known = epochs((1, 0), (3, 10), (7, 25))
    known.truncate_from_end(25)
    assert known.entries == [(1, 0), (3, 10)]
    assert known.latest == 3
    known.truncate_from_start(12)
    assert known.entries == [(3, 12)]
    known.truncate_from_start(12)
    known.truncate_from_start(5)
    assert known.entries == [(3, 12)]
    known.truncate_from_end(0)
    assert (known.entries, known.latest) == ([], -1)


def test_the_file_is_kafkas_and_is_read_back() -> None:
    disk = SimulatedDisk()
    disk.mkdir("/data/t-0")
    known = LeaderEpochs(disk, PATH)
    known.assign(0, 0)
    known.assign(4, 17)
    assert not known.is_durable
    known.write()
    known.synced(known.version)
    assert known.is_durable
    assert disk.read(PATH) == b"0\n2\n0 0\n4 17\n"
    assert LeaderEpochs.load(disk, PATH).entries == known.entries


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n2\n3 0\n2 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n1\n1\n",
        b"\xff\n1\n",
    ],
)
def test_a_file_that_contradicts_itself_is_an_error(data: bytes) -> None:
    disk = SimulatedDisk()
    disk.put(PATH, data)
    with pytest.raises(CheckpointError):
        LeaderEpochs.load(disk, PATH)
