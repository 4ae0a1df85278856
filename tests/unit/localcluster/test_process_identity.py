from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.localcluster.process_identity import is_alive, process_started
from ottla.localcluster.state import BrokerState


def test_a_process_is_known_by_its_number_and_its_beginning() -> None:
    own = BrokerState(1, 1, 1, pid=os.getpid(), process_started=process_started(os.getpid()))
    assert is_alive(own)
    assert not is_alive(replace(own, process_started="long ago"))
    assert not is_alive(replace(own, pid=None))
    assert not is_alive(replace(own, process_started=None))


def test_a_process_that_ends_while_one_looks_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def vanished(path: Path) -> str:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    monkeypatch.setattr(Path, "read_text", vanished)
    assert process_started(os.getpid()) is None


def test_a_process_that_ended_is_not_alive_even_before_its_parent_looked() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    broker = BrokerState(1, 1, 1, pid=process.pid, process_started=process_started(process.pid))
    assert process.stdout is not None
    assert process.stdout.read() == b""  # its end
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(broker)
    process.wait()
    process.stdout.close()
    assert not is_alive(broker)


def test_a_process_that_ended_before_its_start_was_read_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert not is_alive(BrokerState(1, 1, 1, pid=process.pid, process_started=process_started(process.pid)))
