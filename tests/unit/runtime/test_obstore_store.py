"""A directory as an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime.object_store import ObjectMissingError, StoreError
from ottla.runtime.obstore_store import open_store


def test_a_directory_is_made_by_those_who_write_only(tmp_path: Path) -> None:
    place = tmp_path / "not there"
    with pytest.raises(StoreError, match=f"there is no directory {place} on this machine"):
        open_store(f"file://{place}", is_read_only=True)
    assert not place.exists()
    open_store(f"file://{place}").put("a/b", 3, [b"abc"])
    reading = open_store(f"file://{place}", is_read_only=True)
    assert reading.get("a/b", 1, 9) == b"bc"
    with pytest.raises(ObjectMissingError):
        reading.get("a/c", 0, 1)
