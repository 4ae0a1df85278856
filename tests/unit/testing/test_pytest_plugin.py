"""The fixtures, in test runs of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(directory: Path, text: str) -> str:
    (directory / "test_app.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=60, check=False)
    return done.stdout + done.stderr


def test_each_test_has_its_own_broker_or_shares_one(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
addresses = []
shared = []

def test_one(ottla_broker, ottla_topic):
    assert ottla_broker.topics() == [ottla_topic]
    addresses.append(ottla_broker.bootstrap)

def test_two(ottla_broker):
    assert ottla_broker.topics() == []
    addresses.append(ottla_broker.bootstrap)

def test_three(ottla_shared_broker, ottla_topic):
    shared.append((ottla_shared_broker, ottla_topic))
    ottla_shared_broker.faults.delay("produce", ms=1, times=None)

def test_four(ottla_topic, ottla_shared_broker):
    (before, topic), = shared
    assert before is ottla_shared_broker
    assert topic != ottla_topic
    assert {topic, ottla_topic} <= set(ottla_shared_broker.topics())
    assert ottla_shared_broker.faults.pending == ()  # those of the test before are gone
""",
    )
    assert "4 passed" in said, said


def test_a_run_without_the_fixtures_imports_no_broker(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
import sys

def test_nothing_is_imported():
    assert [name for name in sys.modules if name.startswith(("ottla.server", "ottla.client"))] == []
""",
    )
    assert "1 passed" in said, said
