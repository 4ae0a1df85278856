"""The data directory's root: lock, identity, checkpoints, clean stop."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content

from ottla.errors import KafkaError
from ottla.log.directory import LogDirectory
from ottla.log.files.checkpoint import CheckpointError, read_offsets, write_offsets
from ottla.log.files.open_files import OpenFiles
from ottla.log.files.uuids import parse_uuid, uuid_text
from ottla.log.log import Log
from ottla.model import TopicPartition
from ottla.runtime.disk import OsDisk

TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
OTHER_ID = UUID(int=99)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[LogDirectory]:
    opened = opened_directory(tmp_path)
    yield opened
    opened.close()


def opened_directory(path: Path, node_id: int = 1, cluster_id: str | None = None) -> LogDirectory:
    numbers = iter(range(1, 100))
    directory = LogDirectory(OsDisk(), str(path), OpenFiles())
    directory.open(node_id, lambda: UUID(int=next(numbers)), cluster_id)
    return directory


def open_topic(directory: LogDirectory, topic_id: UUID = TOPIC_ID, topic: str = "orders") -> Log:
    return directory.open_log(topic, 0, topic_id, config(), NOW_MS)


def checkpointed(directory: LogDirectory, log: Log) -> None:
    key = TopicPartition("orders", 0)
    directory.checkpoint(
        recovery_points={key: log.durability.flushed_offset},
        log_start_offsets={key: log.log_start_offset},
        high_watermarks={key: log.log_end_offset},
    )


def test_writes_are_kept_while_the_machine_runs(tmp_path: Path, root: LogDirectory) -> None:
    assert not root.keeps_writes_of("boot 1")
    root.note_boot("boot 1")
    assert root.keeps_writes_of("boot 1")
    assert not root.keeps_writes_of("boot 2")
    root.close()
    again = opened_directory(tmp_path)
    assert again.keeps_writes_of("boot 1")
    again.note_boot("")
    assert not again.keeps_writes_of("boot 1")
    assert not again.keeps_writes_of("")
    again.close()


def test_a_log_that_refuses_writes_takes_the_proof_with_it(root: LogDirectory) -> None:
    root.note_boot("boot 1")
    log = open_topic(root)
    log.status.refuse("the disk does what it wants")
    assert not root.keeps_writes_of("boot 1")


def test_the_directory_says_who_it_belongs_to(tmp_path: Path, root: LogDirectory) -> None:
    text = (tmp_path / "meta.properties").read_text()
    assert set(text.splitlines()) == {
        "#",
        "version=1",
        f"cluster.id={root.cluster_id}",
        "node.id=1",
        f"directory.id={uuid_text(root.directory_id)}",
    }
    assert len(root.cluster_id) == 22


def test_the_identity_stays(tmp_path: Path) -> None:
    first = opened_directory(tmp_path)
    first.close()
    second = opened_directory(tmp_path)
    second.close()
    assert (first.cluster_id, first.directory_id) == (second.cluster_id, second.directory_id)


def test_another_nodes_directory_is_refused_and_not_left_locked(tmp_path: Path) -> None:
    opened_directory(tmp_path, 1).close()
    with pytest.raises(KafkaError, match="belongs to node 1, and this is node 2"):
        opened_directory(tmp_path, 2)
    opened_directory(tmp_path, 1).close()


def test_a_second_process_is_told_which_one_holds_the_directory(tmp_path: Path, root: LogDirectory) -> None:
    script = (
        "import sys; from ottla.runtime.directory_lock import DirectoryLock\n"
        "try: DirectoryLock.take(sys.argv[1])\n"
        "except Exception as refused: print(refused)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / ".lock")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert f"in use by process {os.getpid()}" in done.stdout


def test_the_lock_is_free_again_after_closing(tmp_path: Path) -> None:
    opened_directory(tmp_path).close()
    opened_directory(tmp_path).close()


def test_a_clean_stop_is_marked_and_the_mark_is_used_up_by_the_next_start(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    assert not directory.was_closed_cleanly
    log = open_topic(directory)
    append(log, batch(3))
    checkpointed(directory, log)
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    again = opened_directory(tmp_path)
    assert again.was_closed_cleanly
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert open_topic(again).durability.flushed_offset == 3
    again.close()


def test_a_log_that_was_not_closed_properly_leaves_no_mark(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    open_topic(directory).close(clean=False)
    directory.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_log_that_cannot_be_closed_does_not_keep_the_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened_directory(tmp_path)
    bad, good = open_topic(directory, topic="bad"), open_topic(directory, topic="good")
    append(bad, batch())
    append(good, batch())
    monkeypatch.setattr(OsDisk, "write_atomically", failing_for("/bad-0/", OsDisk.write_atomically))
    directory.close()
    assert (bad.status.was_closed_cleanly, good.status.was_closed_cleanly) == (False, True)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    opened_directory(tmp_path).close()


def failing_for(part: str, work: Callable[..., None]) -> Callable[..., None]:
    def fails(disk: OsDisk, path: str, data: bytes, *, sync: bool = True) -> None:
        if part in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        work(disk, path, data, sync=sync)

    return fails


def test_checkpoints_are_kafkas_and_are_used_when_logs_open(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    log = open_topic(directory)
    append(log, batch(5))
    log.durability.flush()
    log.advance_log_start_offset(2)
    checkpointed(directory, log)
    for name, offset in (("recovery-point", 5), ("log-start", 2), ("replication", 5)):
        assert (tmp_path / f"{name}-offset-checkpoint").read_text() == f"0\n1\norders 0 {offset}\n"
    directory.close()
    again = opened_directory(tmp_path)
    assert again.high_watermark("orders", 0) == 5
    assert open_topic(again).log_start_offset == 2
    again.close()


def test_the_cleaners_offsets_have_a_checkpoint_of_their_own(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    append(open_topic(directory), batch(9))
    directory.checkpoint_cleaner("orders", 0, 7)
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    directory.close()
    again = opened_directory(tmp_path)
    assert open_topic(again).compaction.first_dirty_offset == 7
    again.close()


def test_a_log_that_ends_before_its_cleaner_offset_counts_as_dirty(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    append(open_topic(directory), batch(3))
    directory.checkpoint_cleaner("orders", 0, 7)
    directory.close()
    again = opened_directory(tmp_path)
    assert open_topic(again).compaction.first_dirty_offset == 0
    again.close()


def test_a_new_topic_does_not_inherit_the_cleaner_offset_of_a_deleted_one(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    log = open_topic(directory)
    append(log, batch(9))
    directory.checkpoint_cleaner("orders", 0, 7)
    log.begin_delete().run()
    append(open_topic(directory), batch(9))
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    directory.close()


def test_a_damaged_checkpoint_counts_as_empty(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    append(open_topic(directory), batch(5))
    directory.close()
    for name in ("recovery-point", "log-start", "replication"):
        (tmp_path / f"{name}-offset-checkpoint").write_text("0\n7\nnonsense")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    again = opened_directory(tmp_path)
    assert open_topic(again).log_end_offset == 5
    again.close()


def test_a_partition_knows_its_topic(tmp_path: Path, root: LogDirectory) -> None:
    open_topic(root)
    text = (tmp_path / "orders-0" / "partition.metadata").read_text()
    assert text == f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}\n"


def test_the_log_of_a_deleted_topic_is_not_served_as_the_new_ones(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    log = open_topic(directory)
    append(log, batch(5))
    log.durability.flush()
    checkpointed(directory, log)
    directory.close()
    again = opened_directory(tmp_path)
    log = open_topic(again, OTHER_ID)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("-stray")]
    assert again.partition_names() == ["orders-0"]
    again.close()


def test_a_topic_made_again_does_not_inherit_the_old_ones_offsets_even_after_a_crash(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    log = open_topic(directory)
    append(log, batch(50))
    log.durability.flush()
    log.advance_log_start_offset(40)
    checkpointed(directory, log)
    log.begin_delete().run()
    log = open_topic(directory, OTHER_ID)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    append(log, batch(2))
    log.close(clean=False)
    directory.close()
    again = opened_directory(tmp_path)
    log = open_topic(again, OTHER_ID)
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    again.close()


def test_what_an_interrupted_deletion_left_is_removed_and_files_are_no_partitions(tmp_path: Path) -> None:
    doomed = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    doomed.mkdir()
    (doomed / "00000000000000000000.log").write_bytes(b"x")
    (tmp_path / "a.b_c-12").mkdir()
    (tmp_path / "notes").mkdir()
    directory = opened_directory(tmp_path)
    assert not doomed.exists()
    assert directory.partition_names() == ["a.b_c-12"]
    directory.close()


def test_the_metadata_log_is_opened_and_closed_with_the_directory(tmp_path: Path) -> None:
    directory = opened_directory(tmp_path)
    log = directory.open_metadata_log("__cluster_metadata", NOW_MS)
    log.append_replicated(memoryview(batch(2, leader_epoch=1)), NOW_MS)
    before = content(log)
    directory.checkpoint(recovery_points={}, log_start_offsets={}, high_watermarks={})
    directory.close()
    again = opened_directory(tmp_path)
    log = again.open_metadata_log("__cluster_metadata", NOW_MS)
    assert content(log) == before
    assert log.durability.flushed_offset == 2
    again.close()


def test_uuids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert parse_uuid(uuid_text(TOPIC_ID)) == TOPIC_ID
    assert parse_uuid("short") is None
    assert parse_uuid("!" * 22) is None


def test_a_checkpoint_is_read_back_and_nonsense_is_an_error(tmp_path: Path) -> None:
    disk, path = OsDisk(), str(tmp_path / "c")
    assert read_offsets(disk, path) == {}
    offsets = {TopicPartition("a", 0): 5, TopicPartition("a.b-c", 12): 2**40}
    write_offsets(disk, path, offsets)
    assert read_offsets(disk, path) == offsets
    for text in ("", "0", "0\n1\n", "0\n1\na 0\n", "0\n1\na b 0\n", "5\n0\n"):
        (tmp_path / "c").write_text(text)
        with pytest.raises(CheckpointError):
            read_offsets(disk, path)


def test_a_new_directory_takes_the_clusters_id_and_keeps_it(tmp_path: Path) -> None:
    first = opened_directory(tmp_path, cluster_id="the-cluster")
    assert first.cluster_id == "the-cluster"
    first.close()
    again = opened_directory(tmp_path, cluster_id="another")
    assert again.cluster_id == "the-cluster"
    again.close()


def test_a_renewed_directory_has_its_new_id_after_a_restart(tmp_path: Path) -> None:
    first = opened_directory(tmp_path)
    first.renew_id(1, UUID(int=77))
    first.close()
    again = opened_directory(tmp_path)
    assert (again.directory_id, again.cluster_id) == (UUID(int=77), first.cluster_id)
    assert again.directory_ids == (UUID(int=77),)
    again.close()


def test_a_renewed_directory_is_known_by_its_former_ids_too(tmp_path: Path) -> None:
    new = opened_directory(tmp_path)
    original = new.directory_id
    new.close()
    first = opened_directory(tmp_path)
    first.renew_id(1, UUID(int=77))
    first.renew_id(1, UUID(int=78))
    first.close()
    again = opened_directory(tmp_path)
    assert again.directory_ids == (UUID(int=78), UUID(int=77), original)
    again.close()


def test_checkpoints_are_lowered_before_logs_are_cut(tmp_path: Path) -> None:
    first = opened_directory(tmp_path)
    logs = {topic: open_topic(first, topic=topic) for topic in ("orders", "payments")}
    for log in logs.values():
        append(log, *(batch() for _ in range(6)))
        log.durability.flush()
        log.advance_log_start_offset(3)
    first.checkpoint(
        recovery_points={
            TopicPartition(topic, 0): log.durability.flushed_offset for topic, log in logs.items()
        },
        log_start_offsets={TopicPartition(topic, 0): log.log_start_offset for topic, log in logs.items()},
        high_watermarks={},
    )
    first.lower_checkpoints(
        {TopicPartition("orders", 0): 2, TopicPartition("payments", 0): 8, TopicPartition("unheard", 0): 0}
    )
    logs["orders"].truncate_to(2)
    assert read_offsets(OsDisk(), str(tmp_path / "recovery-point-offset-checkpoint")) == {
        ("orders", 0): 2,
        ("payments", 0): 6,
    }
    assert read_offsets(OsDisk(), str(tmp_path / "log-start-offset-checkpoint")) == {
        ("orders", 0): 2,
        ("payments", 0): 3,
    }
    # The process dies: nothing of what was cut counts as lost.
    first.close(clean=False)
    second = opened_directory(tmp_path)
    log = open_topic(second)
    assert (log.log_end_offset, log.extent.first_lost_offset) == (2, None)
    second.close(clean=False)


def test_checkpoints_that_are_low_enough_are_not_written_again(tmp_path: Path, root: LogDirectory) -> None:
    log = open_topic(root)
    append(log, batch(), batch())
    checkpointed(root, log)
    before = (tmp_path / "recovery-point-offset-checkpoint").stat().st_mtime_ns
    root.lower_checkpoints({TopicPartition("orders", 0): 1})
    assert (tmp_path / "recovery-point-offset-checkpoint").stat().st_mtime_ns == before


def test_a_log_that_is_not_open_says_whose_it_is_and_can_be_deleted(tmp_path: Path) -> None:
    first = opened_directory(tmp_path)
    log = open_topic(first)
    append(log, batch())
    with pytest.raises(ValueError, match="orders-0 is open"):
        first.begin_delete("orders-0")
    first.close()
    (tmp_path / "strange-7").mkdir()
    second = opened_directory(tmp_path)
    assert second.topic_id_of("orders-0") == TOPIC_ID
    assert second.topic_id_of("strange-7") is None
    deleted = second.begin_delete("orders-0")
    assert second.partition_names() == ["strange-7"]
    assert [path.name for path in tmp_path.glob("orders-0.*-delete")]
    deleted.run()
    assert not list(tmp_path.glob("orders-0*"))
    second.close()
