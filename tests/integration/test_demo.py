"""`make demo`, short: it must succeed, and it must fail loudly when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples.orders import PARTITIONS, Ledger, checks_of_restart, checks_of_stream, sample_orders

ROOT = Path(__file__).resolve().parents[2]


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "orders.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env=variables | environment,
        check=False,
    )


def test_the_demo_runs_and_every_check_holds(tmp_path: Path) -> None:
    done = demo("--orders", "5000", "--seconds", "1", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 9 checks hold." in done.stdout
    assert "acknowledged 5,000" in done.stdout or "5,000 orders" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.glob("ottla-orders-*")) == []


def test_the_directory_stays_if_asked_for(tmp_path: Path) -> None:
    done = demo("--orders", "10", "--seconds", "0", "--keep", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = tmp_path.glob("ottla-orders-*")
    assert {each.name for each in (kept / "data").glob("orders-*")} == {"orders-0", "orders-1", "orders-2"}


def test_a_broker_that_does_not_start_fails_the_demo_with_its_words(tmp_path: Path) -> None:
    done = demo("--orders", "10", OTTLA_NUM_PARTITIONS="many", TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "num.partitions cannot be 'many'" in done.stdout


def test_the_same_seed_gives_the_same_orders() -> None:
    assert list(sample_orders(50, 1)) == list(sample_orders(50, 1)) != list(sample_orders(50, 2))


def ledgers() -> tuple[Ledger, Any]:
    """What a perfect run would have left behind: 4 records in each partition."""
    sent, read = Ledger(), Ledger()
    for offset in range(4):
        for partition in range(PARTITIONS):
            for ledger in (sent, read):
                ledger.add(partition, offset, b"key-%d" % partition, bytes([partition, offset]))
    return sent, SimpleNamespace(ledger=read, ends=dict.fromkeys(range(PARTITIONS), (0, 4)))


def failing(sent: Ledger, reader: Any) -> list[str]:
    checks = [*checks_of_stream(12, sent, reader), *checks_of_restart(sent, 0, 0.1, 0.1, reader)]
    return [check.claim for check in checks if not check.holds]


def test_a_perfect_run_fails_no_check() -> None:
    assert failing(*ledgers()) == []


@pytest.mark.parametrize(
    ("harm", "claim"),
    [
        (lambda sent, reader: sent.errors.append("lost"), "every order was acknowledged"),
        (lambda sent, reader: reader.ledger.add(0, 3, None, b""), "every order was read"),
        (lambda sent, reader: reader.ledger.partitions_of[b"key-0"].add(1), "same key, same partition"),
        (lambda sent, reader: sent.checksums[0].pop(1), "offsets are sequential and dense"),
        (lambda sent, reader: setattr(reader.ledger, "in_order", False), "offsets are sequential and dense"),
        (lambda sent, reader: reader.ends.update({2: (0, 5)}), "log end = count"),
        (lambda sent, reader: reader.ends.update({2: (0, 3)}), "all is there after a restart"),
        (
            lambda sent, reader: reader.ledger.checksums[1].update({2: b"x"}),
            "checksums read = checksums sent",
        ),
        (lambda sent, reader: reader.ledger.checksums[1].update({2: b"x"}), "checksums are still the same"),
    ],
)
def test_every_kind_of_harm_fails_its_check(harm: Callable[[Ledger, Any], Any], claim: str) -> None:
    sent, reader = ledgers()
    harm(sent, reader)
    assert claim in failing(sent, reader)


def test_a_broker_that_does_not_stop_cleanly_fails_its_check() -> None:
    sent, reader = ledgers()
    checks = list(checks_of_restart(sent, -9, 0.1, 0.1, reader))
    assert [check.claim for check in checks if not check.holds] == ["SIGTERM stops the broker cleanly"]
