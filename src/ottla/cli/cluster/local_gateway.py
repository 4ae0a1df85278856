"""`ottla cluster up --gateway`: a gateway in front of a local cluster, whose console starts and stops its brokers.

The gateway is a process of its own and watches the supervisor: it ends when the cluster does, however that came
about. Where the cluster is secured, callers log in, and the gateway's own client is the administrator's.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from ottla.cli.gateway_process import NOT_INSTALLED, is_installed
from ottla.localcluster.cluster import LocalCluster, ProcessOutcome
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.state import ClusterError, ClusterState
from ottla.localcluster.state_file import read_state
from ottla.localcluster.waiting import wait_until

LOG: Final = "gateway.log"
_WATCH_S: Final = 0.5
_READY_S: Final = 60.0


class LocalBrokers:
    """The brokers of a local cluster, for the console (see gateway/console/broker_control.py)."""

    def __init__(self, data: Path) -> None:
        self._data = data

    @property
    def data(self) -> str:
        return str(self._data)

    async def conditions(self) -> dict[int, str]:
        state = await asyncio.to_thread(read_state, self._data)
        return {} if state is None else {each.node_id: str(each.condition) for each in state.brokers}

    async def command(self, verb: str, broker: int) -> str:
        """Raises ValueError with a sentence."""
        try:
            return await asyncio.to_thread(_carried_out, LocalCluster(self._data), verb, broker)
        except ClusterError as error:
            raise ValueError(str(error)) from error


def _carried_out(cluster: LocalCluster, verb: str, broker: int) -> str:
    if verb == "start":
        return f"Broker {broker} runs as process {cluster.start_broker(broker)}."
    commands = {
        "stop": (cluster.stop_broker, "is stopped"),
        "kill": (cluster.kill, "is killed"),
        "pause": (cluster.pause, "stands still"),
        "resume": (cluster.resume, "goes on"),
    }
    carry_out, words = commands[verb]
    outcome: ProcessOutcome = carry_out(broker)
    return f"Broker {broker} {words}.{f' {outcome.quorum}' if outcome.quorum else ''}"


def check_installed() -> None:
    """Raises ClusterError if there can be no gateway."""
    if not is_installed():
        raise ClusterError(NOT_INSTALLED)


def start_gateway(data: Path, listen: str, *, console_writes: bool, is_detached: bool) -> None:
    """Start a gateway for a cluster that runs. A detached one writes to DIR/gateway.log; its words are printed."""
    state = read_state(data)
    assert state is not None, "the cluster runs"
    command = [sys.executable, "-m", "ottla.cli.main", "gateway", "--local-cluster", str(data)]
    command += ["--bootstrap", state.bootstrap, "--listen", listen, "--quiet"]
    command += ["--console-writes"] if console_writes else []
    if state.is_secure:
        properties = SecurityFiles(data).client_properties
        command += ["--config", str(properties), "--set", "ottla.gateway.login.required=true"]
    if not is_detached:
        subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return
    with (data / LOG).open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    wait_until(lambda: _is_told(data) or process.poll() is not None, "the gateway is ready", _READY_S)


def gateway_said(data: Path) -> str:
    """The words of a detached gateway."""
    return (data / LOG).read_text(encoding="utf-8").rstrip()


def _is_told(data: Path) -> bool:
    return any(words in gateway_said(data) for words in ("The console is at", "Error"))


def end_with_cluster(data: Path) -> None:
    """Send SIGTERM to this process when the cluster's supervisor has ended. For a thread of its own."""
    first = read_state(data)
    while _runs(first, read_state(data)):
        time.sleep(_WATCH_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _runs(first: ClusterState | None, now: ClusterState | None) -> bool:
    if first is None or now is None or first.supervisor is None or now.supervisor != first.supervisor:
        return False
    try:
        os.kill(first.supervisor.pid, 0)
    except ProcessLookupError:
        return False
    return True
