"""Which snapshot of the producers a log begins with."""

from tests.simulation.world.disk import SimulatedDisk

from ottla.log.files.location import Location
from ottla.log.files.open_files import OpenFiles
from ottla.log.producers.producer_state import Producers
from ottla.log.producers.snapshot_files import SnapshotFiles


def test_a_snapshot_of_records_that_were_lost_is_not_loaded_and_removed() -> None:
    disk = SimulatedDisk()
    disk.mkdir("/t-0")
    files = SnapshotFiles(Location(disk, "/t-0", OpenFiles()), Producers())
    for offset in (5, 10, 20):
        files.write(offset)
    assert files.load(trusted_up_to=15, segment_bases={5}) == 10
    assert [offset for offset in (5, 10, 20) if files.has(offset)] == [5, 10]
