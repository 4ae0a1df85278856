"""Snapshots as files: whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.controller.records import TopicRecord
from ottla.raft.messages import SnapshotId
from ottla.records.batch import iter_batches
from ottla.runtime.disk import OsDisk
from ottla.server.quorum.snapshots import SnapshotError, Snapshots, snapshot_content, snapshot_records

RECORDS = [TopicRecord(name=f"t-{number}") for number in range(2500)]
CONTENT = snapshot_content(RECORDS, 3, 1_700_000_000_000)


def test_a_snapshot_reads_back_as_it_was_written() -> None:
    assert list(snapshot_records(CONTENT)) == RECORDS
    assert list(snapshot_records(snapshot_content([], 3, 0))) == []


def test_its_batches_are_numbered_as_kafkas() -> None:
    batches = list(iter_batches(CONTENT))
    assert [batch.base_offset for batch in batches] == [0, 1, 1001, 2001, 2501]
    assert [batch.is_control for batch in batches] == [True, False, False, False, True]
    assert {batch.partition_leader_epoch for batch in batches} == {3}


@pytest.mark.parametrize("size", [0, 1, 70, len(CONTENT) // 2, len(CONTENT) - 90, len(CONTENT) - 1])
def test_a_part_of_one_is_none(size: int) -> None:
    with pytest.raises(SnapshotError):
        Snapshots.check(CONTENT[:size])


def test_a_flipped_bit_is_noticed() -> None:
    for position in range(100, len(CONTENT), 4999):
        damaged = bytearray(CONTENT)
        damaged[position] ^= 4
        with pytest.raises(SnapshotError):
            Snapshots.check(bytes(damaged))


def test_two_are_kept_and_pieces_of_them_can_be_had(tmp_path: Path) -> None:
    kept = Snapshots(OsDisk(), str(tmp_path))
    assert kept.latest is None
    bounds = []
    for offset in (5, 9, 12):
        kept.write(SnapshotId(offset, 1), CONTENT)
        bounds.append(kept.add(SnapshotId(offset, 1)))
    assert bounds == [None, SnapshotId(5, 1), SnapshotId(9, 1)]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "00000000000000000009-0000000001.checkpoint",
        "00000000000000000012-0000000001.checkpoint",
    ]
    assert Snapshots(OsDisk(), str(tmp_path)).ids == [SnapshotId(9, 1), SnapshotId(12, 1)]
    assert kept.piece(SnapshotId(12, 1), 10, 5) == (len(CONTENT), CONTENT[10:15])
    assert kept.piece(SnapshotId(12, 1), len(CONTENT) + 1, 5) == (len(CONTENT), b"")
    assert kept.piece(SnapshotId(5, 1), 0, 5) is None
    kept.replace(SnapshotId(12, 1))
    assert kept.ids == [SnapshotId(12, 1)]
