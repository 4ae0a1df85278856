"""Brokers whose supervisor was killed before it could end them: found by DIR/cluster.json, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.localcluster.process_identity import is_alive
from ottla.localcluster.state import ClusterState, Condition
from ottla.localcluster.state_file import write_state
from ottla.localcluster.waiting import wait_until

_STOP_SECONDS: Final = 20.0


def orphans(state: ClusterState) -> list[int]:
    """The brokers of a cluster without a supervisor whose processes still run."""
    return [each.node_id for each in state.brokers if is_alive(each)]


def end_orphans(data: Path, state: ClusterState) -> None:
    """Stop the orphans, and kill those that do not stop."""
    _signal(state, signal.SIGTERM)
    _signal(state, signal.SIGCONT)
    try:
        wait_until(lambda: not orphans(state), "the brokers have stopped", _STOP_SECONDS)
    except TimeoutError:
        _signal(state, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not orphans(state), "the killed brokers are gone", _STOP_SECONDS)
    for each in state.brokers:
        state = state.with_broker(replace(each, condition=Condition.STOPPED, pid=None, process_started=None))
    write_state(data, replace(state, supervisor=None))


def _signal(state: ClusterState, number: signal.Signals) -> None:
    for node_id in orphans(state):
        pid = state.broker(node_id).pid
        assert pid is not None, "an orphan is a process"
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
