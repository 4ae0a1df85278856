"""The metadata log between crashes: it ends before a hole, begins at a snapshot, and knows what it has
forgotten.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.unit.server.metadata import NOW_MS, metadata_log, opened, running

from ottla.controller.records import TopicRecord
from ottla.errors import KafkaError
from ottla.log.directory import LogDirectory
from ottla.model import EpochEnd
from ottla.raft.messages import SnapshotId
from ottla.raft.quorum_state import QuorumState
from ottla.runtime.disk import OsDisk
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.snapshots import snapshot_content
from ottla.server.quorum.state_file import QuorumStateFile


def record(name: str) -> TopicRecord:
    return TopicRecord(name=name)


def flush(log: MetadataLog) -> None:
    job = log.begin_flush()
    assert job is not None
    job.run()
    log.complete_flush(job)


def filled(path: Path, *epochs: int) -> tuple[LogDirectory, MetadataLog]:
    """A log with one batch of two records for each epoch."""
    directory = opened(path)
    log = metadata_log(directory)
    for epoch in epochs:
        log.append([record("a"), record("b")], epoch)
    flush(log)
    return directory, log


def keep(log: MetadataLog, end_offset: int, epoch: int) -> SnapshotId:
    snapshot_id = SnapshotId(end_offset, epoch)
    log.snapshots.write(snapshot_id, snapshot_content([record("s")], epoch, NOW_MS))
    log.snapshots.add(snapshot_id)
    return snapshot_id


def remember(path: Path) -> QuorumStateFile:
    file = QuorumStateFile(OsDisk(), f"{path}/__cluster_metadata-0")
    file.write(QuorumState(7))
    return file


def test_it_is_the_view_that_the_quorum_needs(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 3)
    assert (log.log_start_offset, log.log_start_epoch, log.log_end_offset) == (0, -1, 4)
    assert (log.flushed_offset, log.last_epoch, log.latest_snapshot) == (4, 3, None)
    assert log.end_offset_for(2) == EpochEnd(1, 2)
    directory.close()


def test_records_that_do_not_go_on_where_it_ends_are_refused(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 1)
    content = log.read(2, 10_000)
    log.truncate_to(2)
    log.append_fetched(content)
    assert log.log_end_offset == 4
    for wrong in (content, content[:-1], b""):
        with pytest.raises(KafkaError):
            log.append_fetched(wrong)
    assert log.log_end_offset == 4
    directory.close()


def test_a_cut_survives_a_crash(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 2)
    directory.checkpoint(recovery_points={}, log_start_offsets={}, high_watermarks={})
    log.truncate_to(2)
    directory.close(clean=False)
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert (again.log_end_offset, again.last_epoch, again.is_whole) == (2, 1, True)
    directory.close()


def test_a_log_that_lost_what_was_durable_has_forgotten_its_promises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, _ = filled(tmp_path, 1, 2)
    file = remember(tmp_path)
    directory.checkpoint(recovery_points={}, log_start_offsets={}, high_watermarks={})
    directory.close(clean=False)
    segment = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert (again.log_end_offset, again.is_whole) == (2, False)
    assert file.read() is None
    assert "more was durable once" in caplog.text
    directory.close()


def rot(path: Path, position: int) -> None:
    """One bit of the segment is another one."""
    segment = path / "__cluster_metadata-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[position] ^= 4
    segment.write_bytes(data)


def size_of(path: Path) -> int:
    return (path / "__cluster_metadata-0" / "00000000000000000000.log").stat().st_size


def test_a_log_whose_disk_forgot_a_bit_ends_before_the_damage_and_has_forgotten_its_promises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, _ = filled(tmp_path / "0", 1, 2, 3)
    directory.close()
    third = size_of(tmp_path / "0") // 3
    # Every byte of the second batch but those of its leader epoch, which no checksum covers.
    for position in (each for each in range(third, 2 * third) if not third + 12 <= each < third + 16):
        path = tmp_path / str(position)
        shutil.copytree(tmp_path / "0", path)
        file = remember(path)
        rot(path, position)
        directory = opened(path)
        log = metadata_log(directory)
        assert (log.log_end_offset, log.is_whole, file.read()) == (2, False, None), position
        assert log.append([record("c")], 4) == 3
        assert len(log.read(0, 10_000)) > third
        directory.close()
    assert "is damaged at 2" in caplog.text


def test_a_node_that_is_alone_does_not_start_with_damaged_metadata(tmp_path: Path) -> None:
    """Its topics would be gone, and their records would seem to be those of deleted topics."""
    directory, _ = filled(tmp_path, 1, 2, 3)
    directory.close()
    rot(tmp_path, size_of(tmp_path) // 2)
    before = size_of(tmp_path)

    async def start() -> None:
        async with running(tmp_path):
            pass

    with pytest.raises(KafkaError, match="is damaged at offset 2, and no other node has it: restore"):
        asyncio.run(start())
    assert size_of(tmp_path) == before


def test_damage_that_is_found_while_it_runs_is_not_given_to_anybody(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 2, 3)
    third = size_of(tmp_path) // 3
    rot(tmp_path, third + 70)
    assert log.read(4, 10_000)
    assert len(log.read(0, third)) == third
    for offset, most in ((0, 10_000), (2, 10_000), (2, 1)):
        with pytest.raises(KafkaError, match="is damaged behind offset"):
            log.read(offset, most)
    directory.close()


def test_a_torn_end_that_nobody_was_promised_is_no_loss(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1)
    file = remember(tmp_path)
    directory.checkpoint(recovery_points={}, log_start_offsets={}, high_watermarks={})
    log.append([record("c")], 1)
    directory.close(clean=False)
    segment = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert (again.log_end_offset, again.is_whole) == (2, True)
    assert file.read() == QuorumState(7)
    directory.close()


def test_it_forgets_what_a_snapshot_holds_and_begins_there_after_a_restart(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 2, 3)
    snapshot_id = keep(log, 4, 2)
    log.forget_before(snapshot_id)
    assert (log.log_start_offset, log.log_start_epoch, log.log_end_offset) == (4, 2, 6)
    log.append([record("d")], 3)
    log.forget_before(keep(log, 7, 3))
    assert (log.log_start_offset, log.last_epoch) == (7, 3)
    directory.close()
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert (again.log_start_offset, again.log_start_epoch, again.log_end_offset) == (7, 3, 7)
    assert (again.latest_snapshot, again.is_whole) == (SnapshotId(7, 3), True)
    directory.close()


def test_a_snapshot_that_ends_behind_the_log_takes_its_place(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1)
    keep(log, 9, 4)
    directory.close()
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert (again.log_start_offset, again.log_start_epoch, again.log_end_offset) == (9, 4, 9)
    assert again.last_epoch == 4
    directory.close()


def test_a_log_whose_beginning_is_gone_starts_over(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 2)
    file = remember(tmp_path)
    snapshot_id = keep(log, 2, 1)
    log.begin_at(snapshot_id)
    log.append([record("c")], 2)
    directory.close()
    next((tmp_path / "__cluster_metadata-0").glob("*.checkpoint")).unlink()
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert (again.log_start_offset, again.log_end_offset, again.lost_offset) == (0, 0, 2)
    assert not again.is_whole
    assert file.read() is None
    directory.close()


def test_a_damaged_snapshot_is_set_aside_and_the_one_before_it_serves(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 1, 2, 3)
    keep(log, 2, 1)
    log.forget_before(SnapshotId(2, 1))
    damaged = keep(log, 4, 2)
    directory.close()
    file = tmp_path / "__cluster_metadata-0" / "00000000000000000004-0000000002.checkpoint"
    file.write_bytes(file.read_bytes()[:-20])
    directory = opened(tmp_path)
    again = metadata_log(directory)
    assert again.latest_snapshot == SnapshotId(2, 1) != damaged
    assert [each.name for each in again.take_snapshot_records()] == ["s"]
    assert (again.log_start_offset, again.log_end_offset, again.is_whole) == (0, 6, True)
    assert file.with_name(file.name + ".damaged").exists()
    directory.close()
