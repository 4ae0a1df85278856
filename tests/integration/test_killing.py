"""A broker is killed under load: no acknowledged record is lost or doubled (STO-4, STO-9, PRO-4)."""

from pathlib import Path

import pytest
from tests.integration.killing import kill_and_check


@pytest.mark.parametrize("settings", [{}, {"flush.messages": "1"}], ids=["page-cache", "fsync"])
def test_nothing_acknowledged_is_lost_or_doubled_when_the_broker_is_killed_under_load(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    seed = 11
    print(f"seed {seed}")
    assert kill_and_check(tmp_path / "data", kills=6, seed=seed, settings=settings) > 0
