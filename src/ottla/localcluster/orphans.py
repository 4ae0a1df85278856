"""Brokers whose supervisor was killed before it could end them: found by what it had written down, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.localcluster.state import ClusterState, Condition, is_alive, write_state

_STOP_SECONDS: Final = 20.0
_LOOK_AGAIN_S: Final = 0.02


def orphans(state: ClusterState) -> list[int]:
    """The brokers whose processes live, though nobody looks after them."""
    return [each.node_id for each in state.brokers if is_alive(each)]


def end_orphans(data: Path, state: ClusterState) -> None:
    """Stop them; kill those that do not."""
    _signal(state, signal.SIGTERM)
    _signal(state, signal.SIGCONT)
    if not _within(_STOP_SECONDS, lambda: not orphans(state)):
        _signal(state, signal.SIGKILL)
        _within(_STOP_SECONDS, lambda: not orphans(state))
    for each in state.brokers:
        state = state.with_broker(replace(each, condition=Condition.STOPPED, pid=None, process_started=None))
    write_state(data, replace(state, supervisor=None))


def _signal(state: ClusterState, number: signal.Signals) -> None:
    for node_id in orphans(state):
        pid = state.broker(node_id).pid
        assert pid is not None, "an orphan is a process"
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True
