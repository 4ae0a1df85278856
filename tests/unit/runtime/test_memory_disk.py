"""A directory in memory, and a disk with a limit on it (OPS-1)."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.runtime.memory_directory import MemoryDirectory
from ottla.runtime.memory_disk import MemoryDisk


class Clock:
    """Milliseconds that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_writes_beyond_the_limit_fail_until_there_is_room_again(tmp_path: Path) -> None:
    clock = Clock()
    disk = MemoryDisk(str(tmp_path), 1 << 20, clock)
    file = disk.open(f"{tmp_path}/a", create=True)
    file.append([bytes(700_000)])
    with pytest.raises(OSError, match="the memory for data is full"):
        file.append([bytes(700_000)])
    assert file.size == 700_000
    disk.remove(f"{tmp_path}/a")
    clock.now_ms += 1000
    other = disk.open(f"{tmp_path}/b", create=True)
    assert other.append([bytes(700_000)]) == 700_000


def test_the_usage_is_that_of_the_files(tmp_path: Path) -> None:
    clock = Clock()
    disk = MemoryDisk(str(tmp_path), 1 << 20, clock)
    (tmp_path / "inner").mkdir()
    disk.write_atomically(f"{tmp_path}/inner/a", bytes(500_000))
    disk.open(f"{tmp_path}/sparse", create=True).truncate(10 << 20)
    clock.now_ms += 10_000
    total, free = disk.usage(str(tmp_path))
    assert total == 1 << 20
    assert 400_000 < free < 560_000


def test_a_directory_goes_with_its_process_and_one_that_was_abandoned_with_the_next() -> None:
    program = (
        "import sys; from ottla.runtime.memory_directory import MemoryDirectory as M; print(M.create().path)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    abandoned = Path(done.stdout.strip())
    assert abandoned.exists()
    first, second = MemoryDirectory.create(), MemoryDirectory.create()
    assert not abandoned.exists()
    assert first.path != second.path
    assert Path(first.path).is_dir()
    for directory in (first, second):
        directory.remove()
        assert not Path(directory.path).parent.exists()
