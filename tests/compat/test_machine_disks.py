"""The machines of a chaos run do what their names say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.chaos.machines.commands import NoMachinesError, check_system
from tests.chaos.machines.disks import LoopDisk


def _write(path: Path, flush: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, b"x" * 10_000)
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def test_a_disk_that_loses_power_keeps_what_was_flushed_and_forgets_the_rest(tmp_path: Path) -> None:
    try:
        check_system()
    except NoMachinesError as why:
        pytest.skip(f"NO MACHINES: {why}")
    place = tmp_path / "disk"
    disk = LoopDisk(tmp_path / "disk.img", place)
    with disk.mounted():
        _write(place / "flushed", flush=True)
        _write(place / "waiting", flush=False)
        disk.lose_power()
        assert (place / "flushed").stat().st_size == 10_000
        assert not (place / "waiting").exists() or (place / "waiting").stat().st_size == 0
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            _write(place / "more", flush=False)
        disk.empty()
        _write(place / "more", flush=True)
        disk.replace()
        assert list(place.iterdir()) == []
