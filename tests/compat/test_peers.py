"""The benchmark beside other logs still runs, for each server that this machine has or can fetch."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import peers
from bench.peers import SIDES, PeersBench, Side, available

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]  # what is missing is fetched


@pytest.mark.parametrize("side", SIDES[1:], ids=lambda side: side.name)
def test_every_server_is_measured(side: Side, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, left_out = available([side.peer])
    if left_out:
        pytest.skip(f"NO {side.name}: {left_out[side.peer]}")
    monkeypatch.setattr(peers, "IDLE_S", 0.0)
    bench = PeersBench([side], tmp_path)
    with bench.running():
        bench.round(1, 0.003)
    assert bench.measured
    assert all(by_side[side.name][0] > 0 for by_side in bench.measured.values())
