"""A machine with room: of the one that the tests run on the doctor might rightly warn."""

import resource
import shutil
from typing import NamedTuple

import pytest


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def _roomy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 << 30, 50 << 30, 50 << 30))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8192, 8192))
