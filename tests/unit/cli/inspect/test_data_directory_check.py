"""The doctor's findings in data directories, healthy and otherwise."""

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.inspect.conftest import Usage
from tests.unit.cli.inspect.data_files import NOW_MS, SEGMENT, batch, write_data_directory, write_partition

from ottla.cli.inspect.data_directory_check import check_data
from ottla.client.admin.checks.findings import CannotLookError, Examination, Severity
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY, AbortedEntry

SIZE = len(batch(0))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A healthy data directory after a clean stop: orders-0 with offsets 0 to 9."""
    return write_data_directory(tmp_path / "data")


def found(report: Examination, severity: Severity) -> list[str]:
    return [
        f"{Path(each.place).name}: {each.problem}" for each in report.findings if each.severity is severity
    ]


def only(report: Examination) -> tuple[Severity, str]:
    (finding,) = report.findings
    assert finding.advice
    return finding.severity, f"{Path(finding.place).name}: {finding.problem}"


@pytest.mark.parametrize("deep", [True, False])
def test_a_healthy_directory_has_no_findings(root: Path, deep: bool) -> None:
    report = check_data(root, deep=deep)
    assert report.findings == []
    assert report.is_healthy
    assert report.facts["partitions"] == report.facts["segments"] == 1
    assert report.facts["size_bytes"] == 5 * SIZE
    assert report.facts["cluster_id"] == "Some-cluster"


def test_nothing_is_changed(root: Path) -> None:
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()
    }
    check_data(root, deep=True)
    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()
    }


def test_what_is_no_data_directory_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(CannotLookError, match="there is no "):
        check_data(tmp_path / "absent", deep=False)
    with pytest.raises(CannotLookError, match="is no data directory"):
        check_data(tmp_path, deep=False)


# ---- use and identity


HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["flock", "lockf"])  # ours, and Apache Kafka's
def test_a_directory_in_use_names_the_process(root: Path, kind: str) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    (root / ".lock").write_text("4242\n")
    # One kind of lock belongs to a process, so another one has to hold it.
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, root / ".lock", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        report = check_data(root, deep=False)
        holder.communicate()
    assert report.is_healthy
    assert only(report) == (Severity.NOTE, ".lock: process 4242 uses this directory")
    assert report.facts["in_use_by"] == 4242


def test_an_unclean_stop_is_a_note(root: Path) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    report = check_data(root, deep=False)
    assert report.is_healthy
    assert only(report) == (Severity.NOTE, "data: the broker that used it last did not stop properly")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "it is missing"),
        ("version=1\n", "it does not say cluster.id and node.id"),
        ("version=1\ncluster.id=x\n", "it does not say node.id"),
        ("=\n", "it cannot be read"),
    ],
)
def test_an_unusable_identity_is_an_error(root: Path, content: str | None, problem: str) -> None:
    if content is None:
        (root / "meta.properties").unlink()
    else:
        (root / "meta.properties").write_text(content)
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.ERROR
    assert problem in text


# ---- checkpoints


def test_a_damaged_checkpoint_is_a_warning(root: Path) -> None:
    (root / "recovery-point-offset-checkpoint").write_text("0\n5\norders 0 10\n")
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.WARNING
    assert "1 entries and says 5" in text


def test_an_empty_checkpoint_is_how_apache_kafka_begins(root: Path) -> None:
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        (root / name).write_bytes(b"")
    (root / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"")
    assert check_data(root, deep=False).findings == []


def test_a_negative_offset_is_a_warning(root: Path) -> None:
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 -5\n")
    assert only(check_data(root, deep=False))[1].endswith("it has a negative offset for orders-0")


@pytest.mark.parametrize(
    ("name", "words"),
    [("recovery-point", "flushed up to"), ("replication", "committed up to"), ("log-start", "begins at")],
)
def test_a_log_that_ends_before_its_checkpoint_has_lost_records(root: Path, name: str, words: str) -> None:
    (root / f"{name}-offset-checkpoint").write_text("0\n1\norders 0 11\n")
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.ERROR
    assert f"{words} offset 11, but it ends at 10" in text


def test_a_partition_that_a_checkpoint_knows_and_nobody_finds_is_a_warning(root: Path) -> None:
    (root / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 10\ngone 3 7\n")
    assert only(check_data(root, deep=False)) == (
        Severity.WARNING,
        "gone-3: it was flushed up to offset 7 once, and the directory is not there",
    )


# ---- segments


def test_a_wrong_checksum_is_found_by_a_deep_look(root: Path) -> None:
    log = root / "orders-0" / SEGMENT
    data = bytearray(log.read_bytes())
    data[SIZE + 80] ^= 1
    log.write_bytes(data)
    assert check_data(root, deep=False).findings == []
    severity, text = only(check_data(root, deep=True))
    assert severity is Severity.ERROR
    assert f"{SIZE} bytes at {SIZE} are damaged: the checksum of the batch at offset 2" in text


def test_a_torn_tail_is_a_note_after_a_crash_and_an_error_after_a_clean_stop(root: Path) -> None:
    log = root / "orders-0" / SEGMENT
    log.write_bytes(log.read_bytes() + b"half a batch")
    (error,) = check_data(root, deep=False).findings
    assert error.severity is Severity.ERROR
    (root / ".kafka_cleanshutdown").unlink()
    report = check_data(root, deep=False)
    assert report.is_healthy
    assert f"{SEGMENT}: the last 12 bytes are an unfinished write" in found(report, Severity.NOTE)


def test_segments_that_overlap_are_an_error(root: Path) -> None:
    write_partition(root / "orders-0", [batch(8), batch(10)], base_offset=8)
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.ERROR
    assert "reaches offset 9, into the one from 8 on" in text


def test_a_hole_between_segments_is_a_warning_unless_the_log_was_compacted(root: Path) -> None:
    write_partition(root / "orders-0", [batch(15)], base_offset=15)
    assert only(check_data(root, deep=False)) == (
        Severity.WARNING,
        "orders-0: offsets 10 to 14 are in no segment",
    )
    (root / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 15\n")
    assert only(check_data(root, deep=False))[0] is Severity.NOTE


def test_a_partition_without_a_segment_is_an_error(root: Path) -> None:
    (root / "empty-0").mkdir()
    assert only(check_data(root, deep=False)) == (Severity.ERROR, "empty-0: there is no segment in it")


# ---- what stands beside the segments

INDEX = "00000000000000000000.index"
TIMES = "00000000000000000000.timeindex"
ABORTED = "00000000000000000000.txnindex"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (INDEX, b"abc", "3 bytes are not a whole number of entries"),
        (INDEX, OFFSET_ENTRY.pack(3, SIZE) * 2, "its entries do not rise"),
        (INDEX, OFFSET_ENTRY.pack(3, 10_000), "point past the end of the log"),
        (INDEX, OFFSET_ENTRY.pack(3, SIZE + 1), "the entry for offset 3 points at no batch"),
        (INDEX, OFFSET_ENTRY.pack(3, 3 * SIZE), "the entry for offset 3 points at no batch"),
        (TIMES, TIME_ENTRY.pack(NOW_MS, 3) * 2, "its entries do not rise"),
        (TIMES, TIME_ENTRY.pack(NOW_MS, 10), "it names offset 10, and the segment ends at 10"),
        (ABORTED, b"abc", "3 bytes are not a whole number of entries"),
        (ABORTED, AbortedEntry(7, 2, 4, 5).pack() * 2, "its entries do not rise"),
        (ABORTED, AbortedEntry(7, 4, 2, 5).pack(), "its entries do not rise"),
        (ABORTED, AbortedEntry(7, 2, 10, 11).pack(), "it names markers at 10 to 10, and the segment has the"),
    ],
)
def test_a_wrong_index_is_a_warning(root: Path, name: str, content: bytes, problem: str) -> None:
    (root / "orders-0" / name).write_bytes(content)
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.WARNING
    assert problem in text


def test_a_list_of_aborted_transactions_is_no_finding(root: Path) -> None:
    entries = AbortedEntry(7, 0, 4, 5).pack() + AbortedEntry(8, 2, 9, 10).pack()
    (root / "orders-0" / ABORTED).write_bytes(entries)
    assert check_data(root, deep=True).findings == []


def test_a_missing_index_is_a_warning(root: Path) -> None:
    (root / "orders-0" / INDEX).unlink()
    assert only(check_data(root, deep=False))[1].startswith(f"{INDEX}: the index is missing")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("0\n1\nx y\n", "not a number"),
        ("0\n2\n1 5\n1 6\n", "do not rise"),
        ("0\n1\n3 11\n", "past the end at 10"),
    ],
)
def test_wrong_leader_epochs_are_a_warning(root: Path, content: str, problem: str) -> None:
    (root / "orders-0" / "leader-epoch-checkpoint").write_text(content)
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.WARNING
    assert problem in text


def test_a_partition_without_identity_is_a_warning(root: Path) -> None:
    metadata = root / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\n")
    assert only(check_data(root, deep=False))[1] == "partition.metadata: it names no topic id"
    metadata.unlink()
    assert "it is missing" in only(check_data(root, deep=False))[1]


def test_the_metadata_log_needs_no_identity(root: Path) -> None:
    write_partition(root / "__cluster_metadata-0", [batch(0)])
    (root / "__cluster_metadata-0" / "partition.metadata").unlink()
    assert check_data(root, deep=False).findings == []


def test_a_damaged_snapshot_is_a_warning(root: Path) -> None:
    (root / "orders-0" / "00000000000000000010.snapshot").write_bytes(b"\0\1")
    assert "too few for a producer snapshot" in only(check_data(root, deep=False))[1]


def test_leftovers_are_notes_and_quarantine_is_a_warning(root: Path) -> None:
    for suffix in (".deleted", ".cleaned", ".swap"):
        (root / "orders-0" / f"00000000000000000000.log{suffix}").write_bytes(b"")
    (root / "orders-0" / "00000000000000000000.log.quarantine-99").write_bytes(b"lost")
    (root / "orders-1.0123-stray").mkdir()
    report = check_data(root, deep=False)
    assert len(found(report, Severity.NOTE)) == 3
    assert found(report, Severity.WARNING) == [
        "00000000000000000000.log.quarantine-99: 4 damaged bytes were put aside here when the broker recovered",
        "orders-1.0123-stray: these records belong to a topic that was deleted and created again under the same name",
    ]


# ---- the machine


def test_a_nearly_full_disk_is_a_warning(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 << 30, 98 << 30, 2 << 30))
    assert only(check_data(root, deep=False)) == (
        Severity.WARNING,
        "data: only 2048 MiB of 102400 MiB are free on the disk",
    )


def test_a_low_limit_of_open_files_is_a_warning(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    severity, text = only(check_data(root, deep=False))
    assert severity is Severity.WARNING
    assert "may open 256 files, and these logs may need 259" in text
