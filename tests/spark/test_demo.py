"""`make demo`, short: it must succeed, end at Ctrl-C, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from examples.demo import AUDITED, Audits, Check, Killing, checks, lake_check, tail_check
from examples.demo_lake import LakeAnswer
from examples.demo_orders import Sent, sample_orders
from examples.demo_tail import LiveTail
from examples.demo_watch import Seen, Window
from tests.repository import ROOT

from ottla.client.producer.machine.delivery_report import DeliveryReport
from ottla.localcluster.waiting import wait_until

_MARK = "OTTLA_DEMO_UNDER_TEST"
EQUAL = {"equal": True, "records": 10, "rows": 10}


def started(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(tmp_path), "DEMO_MARK": f"{_MARK}-{tmp_path.name}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(tmp_path: Path) -> Iterator[int]:
    """Processes that the demo started, and that run still."""
    mark = f"{_MARK}-{tmp_path.name}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path("/proc", name, "environ").read_bytes():
                yield int(name)
        except OSError:
            continue  # it is gone, or not ours


@pytest.mark.timeout(400)
def test_the_demo_runs_and_every_check_holds(tmp_path: Path) -> None:
    done = started(tmp_path, "--seconds", "8", "--rate", "100")
    output, _ = done.communicate(timeout=390)
    assert done.returncode == 0, output
    assert "All 9 checks hold." in output
    assert "See it live in a browser: http://localhost:" in output
    assert "The same topic over HTTP: curl -N 'http://localhost:" in output
    assert "is dead (kill -9)" in output
    assert "Where to go on" in output
    assert list(tmp_path.glob("ottla-demo-*")) == []
    wait_until(lambda: not list(left_behind(tmp_path)), "all processes are gone")


@pytest.mark.timeout(120)
def test_the_demo_ends_at_ctrl_c_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = started(tmp_path, "--seconds", "60", "--rate", "50")
    assert process.stdout is not None
    for line in process.stdout:
        if "the pipeline starts" in line:
            break
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 130, output
    assert "Stopped." in output
    assert "Traceback" not in output
    assert list(tmp_path.glob("ottla-demo-*")) == []
    wait_until(lambda: not list(left_behind(tmp_path)), "all processes are gone")


def test_some_orders_are_bad_or_late_or_come_twice() -> None:
    orders = list(islice(sample_orders(1), 600))
    kinds = [order.kind for order in orders]
    assert {"good", "bad", "late", "twice"} == set(kinds)
    twice = kinds.index("twice")
    assert orders[twice].value == orders[twice - 1].value


def test_a_pause_is_the_longest_silence_of_any_partition() -> None:
    sent = Sent()
    sent.pauses = [(1.0, 1.2), (5.0, 5.7), (9.0, 9.1)]
    assert sent.longest_pause_ms(4.0, 8.0) == pytest.approx(700)
    assert sent.longest_pause_ms(20.0, 30.0) == 0


def perfect() -> tuple[Sent, Seen, Audits]:
    """The tables of a perfect run."""
    sent, seen = Sent(), Seen()
    sent.kinds.update({"good": 6, "bad": 2, "late": 1, "twice": 1})
    for offset in range(10):
        sent.acknowledge(DeliveryReport("orders", 0, offset, 0))
    seen.dead.update({(b"0", b"1"), (b"0", b"2")})
    seen.rows.update({"raw_orders": 10, "orders": 7})
    seen.windows.update({0: Window(7, 1.0)})  # type: ignore[dict-item]
    return sent, seen, Audits(EQUAL, EQUAL)


def failing(sent: Sent, seen: Seen, audits: Audits) -> list[str]:
    found: list[Check] = list(checks(sent, seen, Killing(1, 0.0, 1.0), audits))
    assert len(found) == 7
    return [check.claim for check in found if not check.holds]


def test_a_query_over_table_and_log_must_have_every_order_and_both_sides() -> None:
    sent, _, _ = perfect()
    assert lake_check(sent, LakeAnswer(5, 10, "SI", 4)).holds
    for wrong in (
        LakeAnswer(5, 9, "SI", 4),
        LakeAnswer(5, -1, "SI", 4),
        LakeAnswer(10, 10, "SI", 4),
        LakeAnswer(0, 10, "SI", 4),
    ):
        assert not lake_check(sent, wrong).holds


def test_a_live_tail_must_hear_every_order_and_counts_none_twice() -> None:
    sent, _, _ = perfect()
    tail = LiveTail("http://localhost:1", "orders")
    for offset in (*range(10), 9):  # after a break the last one may come again
        tail.take([b"id: 0:1\n", f'data: {{"partition": 0, "offset": {offset}}}\n'.encode(), b"\n"])
    assert tail_check(sent, tail.heard).holds
    assert not tail_check(sent, 9).holds


def test_a_perfect_run_fails_no_check_and_every_harm_fails_its_own() -> None:
    assert failing(*perfect()) == []
    sent, seen, audited = perfect()
    for wrong in ({**EQUAL, "equal": False}, {**EQUAL, "records": 9}):
        assert failing(sent, seen, Audits(wrong, EQUAL)) == [AUDITED[0]]
        assert failing(sent, seen, Audits(EQUAL, wrong)) == [AUDITED[1]]
    seen.dead.add((b"0", b"3"))
    assert failing(sent, seen, audited) == ["every bad order is a dead letter, and no other"]
    sent, seen, audited = perfect()
    seen.rows["orders"] += 1
    assert failing(sent, seen, audited) == ["orders has each good order once"]
    sent, seen, audited = perfect()
    seen.windows.clear()
    assert failing(sent, seen, audited) == ["revenue has closed windows"]
    sent, seen, audited = perfect()
    sent.errors.append("lost")
    assert "every order was acknowledged" in failing(sent, seen, audited)
