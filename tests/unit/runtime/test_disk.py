"""The real disk: what the simulated one imitates."""

import contextlib
import gc
import os
from pathlib import Path

import pytest
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content, open_log, read_all

from ottla.log.files.open_files import OpenFiles
from ottla.log.segments.index import IndexFile
from ottla.records.index_entries import OFFSET_ENTRY
from ottla.runtime.disk import OsDisk


def descriptors(directory: Path) -> int:
    """How many files of a directory this process has open; threads of other tests open others meanwhile."""
    gc.collect()
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith(f"{directory}/")
    return found


def test_a_file_grows_by_appends_and_is_read_anywhere(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    assert file.append([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 6
    assert (file.size, file.read(1, 3), file.read(5, 10), file.read(9, 1)) == (6, b"bcd", b"f", b"")
    file.truncate(2)
    file.append([b"z"])
    assert file.read(0, 10) == b"abz"
    file.sync()


def test_more_buffers_than_one_system_call_takes_are_written_in_order(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    buffers = [number.to_bytes(2, "big") for number in range(3000)]
    assert file.append(buffers) == 6000
    assert file.read(0, 6000) == b"".join(buffers)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OsDisk().open(str(tmp_path / "none"))


def test_a_descriptor_is_closed_with_the_last_reference(tmp_path: Path) -> None:
    disk = OsDisk()
    before = descriptors(tmp_path)
    file = disk.open(str(tmp_path / "f"), create=True)
    held = [file]
    assert descriptors(tmp_path) == before + 1
    del file
    assert descriptors(tmp_path) == before + 1
    held.clear()
    assert descriptors(tmp_path) == before


def test_an_atomic_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    disk = OsDisk()
    for sync in (True, False):
        disk.write_atomically(str(tmp_path / "f"), b"content", sync=sync)
        assert disk.read(str(tmp_path / "f")) == b"content"
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["f"]


def test_an_index_is_sparse_until_it_is_written_and_trimmed_at_the_end(tmp_path: Path) -> None:
    path = str(tmp_path / "x.index")
    disk, open_files = OsDisk(), OpenFiles()
    disk.open(path, create=True)
    index = IndexFile(disk, path, OFFSET_ENTRY, open_files.maps, size_bytes=0)
    for number in range(1, 2000):
        assert index.put(number, number * 4096, max_bytes=10 << 20)
    assert disk.size(path) == 10 << 20
    assert os.stat(path).st_blocks * 512 < 1 << 16
    index.trim()
    assert disk.size(path) == 1999 * 8
    again = IndexFile(disk, path, OFFSET_ENTRY, open_files.maps, size_bytes=disk.size(path))
    assert again.count == 1999
    assert again.entry(again.floor(1500)) == (1500, 1500 * 4096)


def test_an_untrimmed_index_ends_at_its_first_zero_entry(tmp_path: Path) -> None:
    path = str(tmp_path / "x.index")
    disk, open_files = OsDisk(), OpenFiles()
    index = IndexFile(disk, path, OFFSET_ENTRY, open_files.maps, size_bytes=0)
    for number in range(1, 40):
        index.put(number, number, max_bytes=8000)
    again = IndexFile(disk, path, OFFSET_ENTRY, open_files.maps, size_bytes=disk.size(path))
    assert again.count == 39


def test_a_log_on_a_real_disk_survives_closing_and_killing(tmp_path: Path) -> None:
    directory = str(tmp_path / "t-0")
    settings = config(segment_bytes=2000, index_interval_bytes=300)
    log = open_log(OsDisk(), directory=directory, settings=settings)
    append(log, *(batch(2, timestamp=NOW_MS + number) for number in range(50)))
    before = content(log)
    log.close()
    log = open_log(OsDisk(), directory=directory, settings=settings, recovery_point=100)
    assert content(log) == before
    append(log, batch())
    log.close(clean=False)
    log = open_log(OsDisk(), directory=directory, settings=settings, clean=False, recovery_point=100)
    assert log.log_end_offset == 101
    assert log.timestamps.largest().offset == 98
    log.close()


def test_a_reader_keeps_an_evicted_and_deleted_segment_readable(tmp_path: Path) -> None:
    open_files = OpenFiles(files=1, maps=2)
    log = open_log(
        OsDisk(), directory=str(tmp_path / "t-0"), settings=config(segment_bytes=300), open_files=open_files
    )
    append(log, *(batch() for _ in range(10)))
    found = log.read(0, 300, upper_offset=10, at_least_one=True)
    assert found is not None
    assert len(read_all(log)) == 10
    log.begin_delete().run()
    assert not (tmp_path / "t-0").exists()
    assert list(tmp_path.iterdir()) == []
    assert len(found.file.read(found.position, found.size)) == found.size


def test_open_descriptors_and_maps_are_bounded(tmp_path: Path) -> None:
    open_files = OpenFiles(files=4, maps=4)
    before = descriptors(tmp_path)
    logs = [
        open_log(
            OsDisk(),
            directory=str(tmp_path / f"t-{number}"),
            settings=config(segment_bytes=300, index_interval_bytes=1),
            open_files=open_files,
        )
        for number in range(10)
    ]
    for log in logs:
        append(log, *(batch() for _ in range(10)))
        assert len(read_all(log)) == 10
    # A map holds a descriptor of its own, too.
    assert descriptors(tmp_path) - before <= 8
    for log in logs:
        log.close(clean=False)
    assert descriptors(tmp_path) == before


def test_a_deleted_logs_directory_vanishes_in_one_step(tmp_path: Path) -> None:
    log = open_log(OsDisk(), directory=str(tmp_path / "t-0"))
    append(log, batch())
    log.begin_delete().run()
    assert log.status.is_deleted
    assert list(tmp_path.iterdir()) == []
