"""The pages on testing and on the clients without asyncio: what they show runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ottla.testing import EmbeddedBroker

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_every_block_of_the_page_on_testing_is_a_test_file_that_passes(tmp_path: Path) -> None:
    files = blocks("testing.md")
    assert len(files) >= 8
    for number, block in enumerate(files):
        assert "def test_" in block
        (tmp_path / f"test_block_{number}.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_program_of_the_page_on_blocking_clients_runs(ottla_broker: EmbeddedBroker) -> None:
    programs = blocks("blocking.md")
    assert programs
    for program in programs:
        text = program.replace("localhost:9092", ottla_broker.bootstrap)
        command = [sys.executable, "-W", "error", "-c", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert done.stdout
