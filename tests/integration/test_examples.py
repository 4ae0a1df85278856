"""The examples run as a user would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.repository import ROOT

from ottla.localcluster.broker_process import running, start_broker


def test_the_clients_example_writes_and_reads(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with running(start_broker(tmp_path / "data", settings)) as broker:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "clients.py"), broker.bootstrap],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "1000 orders were delivered, 1000 were read"
