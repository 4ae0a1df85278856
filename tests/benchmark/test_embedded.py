"""The measurement of the broker for tests still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_measures_starts_and_blocking_clients() -> None:
    command = [sys.executable, "-m", "bench.embedded", "--times", "3", "--records", "2000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "promised: under 150 ms" in done.stdout
    assert done.stdout.count("records/s") == 4
