"""Starting a cluster: claim the directory, write the plan to DIR/cluster.json, run the supervisor.

`ottla cluster up` claims a directory and runs the supervisor in its own process. `launch` starts the
supervisor as a process of its own; unless detached, this supervisor ends when its standard input does, so
that a program that is killed leaves no broker behind. `running_cluster` is a cluster for the length of a
block.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from ottla.config import ConfigError
from ottla.localcluster.broker_process import clean_environment
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.fleet import READY_DEADLINE_S, STOP_DEADLINE_S
from ottla.localcluster.orphans import end_orphans, orphans
from ottla.localcluster.plan.cluster import DEFAULT_HOST, ClusterOptions, plan_cluster, supervisor_output
from ottla.localcluster.ports import free_ports
from ottla.localcluster.security_files import LOCAL_HOSTS, SecurityFiles
from ottla.localcluster.state import ClusterError, ClusterState, numbers
from ottla.localcluster.state_file import lock, read_state, write_state
from ottla.localcluster.supervisor import READY, UNTIL_EOF

_POLL_S: Final = 0.02
# The supervisor gives up first and says why; this deadline is for a supervisor that hangs.
_LAUNCH_DEADLINE_S: Final = READY_DEADLINE_S + 15
_END_DEADLINE_S: Final = 2 * STOP_DEADLINE_S
_ANY_PORTS: Final = ClusterOptions(port=0)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a directory's cluster: the planned state, and the lock, which a child may inherit."""

    state: ClusterState
    lock: IO[str]


@contextlib.contextmanager
def claim(data: Path, options: ClusterOptions) -> Iterator[Claim]:
    """Hold the directory's lock for a block and write the plan; ClusterError if the cluster runs."""
    held = lock(data)
    if held is None:
        raise ClusterError(_running_sentence(data))
    with held:
        former = read_state(data)
        _refuse_orphans(data, former)
        host = options.host or (former.host if former else DEFAULT_HOST)

        def ports(count: int, taken: Sequence[int]) -> list[int]:
            return free_ports(host, count, taken)

        state = plan_cluster(former, options, ports, secrets.token_hex(11))
        if state.is_secure:
            _secure(data, state)
        write_state(data, state)
        yield Claim(state, held)


def _secure(data: Path, state: ClusterState) -> None:
    """Make the files of a secured cluster unless they are there, and lead the administrator's client to it."""
    files = SecurityFiles(data)
    try:
        if not files.exist:
            files.make([state.host])
        elif state.host not in LOCAL_HOSTS and state.host not in files.hosts():
            raise ConfigError(
                f"The certificate of the brokers does not name {state.host}: add it with ottla security renew --data "
                f"{data} --host {state.host}"
            )
        files.lead_client_to(state.bootstrap)
    except ConfigError as error:
        raise ClusterError(str(error)) from error
    except OSError as error:
        raise ClusterError(f"{files.directory} cannot be used: {error.strerror or error}.") from error


def launch(
    data: Path,
    options: ClusterOptions,
    *,
    is_detached: bool = False,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a supervisor and wait until all brokers serve; ClusterError with its sentence if they do not."""
    with claim(data, options) as claimed:
        process = _start_supervisor(data, claimed.lock, is_detached, environment)
    try:
        _await_ready(data, process)
    except BaseException:
        end(data, process)
        raise
    return process


def end(data: Path, process: subprocess.Popen[bytes]) -> None:
    """Stop a launched cluster and wait for the end of all its processes."""
    if process.stdin is not None:
        process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(_END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        if state := read_state(data):
            end_orphans(data, state)


@contextlib.contextmanager
def running_cluster(data: Path, options: ClusterOptions = _ANY_PORTS) -> Iterator[LocalCluster]:
    """A cluster for the length of a block, without settings from this process's environment."""
    process = launch(data, options, environment=clean_environment())
    try:
        yield LocalCluster(data)
    finally:
        end(data, process)


def _start_supervisor(
    data: Path, held: IO[str], is_detached: bool, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start it in a session of its own: Ctrl-C in a terminal is for the program that starts the cluster."""
    command = [sys.executable, "-m", "ottla.localcluster.supervisor", str(data)]
    log = supervisor_output(data)
    log.write_bytes(b"")
    with log.open("ab") as sink:
        return subprocess.Popen(
            command if is_detached else [*command, UNTIL_EOF],
            stdin=subprocess.DEVNULL if is_detached else subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            pass_fds=[held.fileno()],
        )


def _await_ready(data: Path, process: subprocess.Popen[bytes]) -> None:
    log = supervisor_output(data)
    deadline = time.monotonic() + _LAUNCH_DEADLINE_S
    while READY not in (said := log.read_text(errors="replace")):
        if process.poll() is not None:
            reason = log.read_text(errors="replace").rstrip().removeprefix("Error: ")
            raise ClusterError(f"The cluster did not start: {reason}")
        if time.monotonic() > deadline:
            raise ClusterError(f"The cluster is not ready after {_LAUNCH_DEADLINE_S:.0f} s: {said.rstrip()}")
        time.sleep(_POLL_S)


def _refuse_orphans(data: Path, former: ClusterState | None) -> None:
    left = orphans(former) if former else []
    if left:
        raise ClusterError(
            f"The supervisor of {data} is gone, and its brokers {numbers(left)} still run. "
            f"End them with: ottla cluster down --data {data}"
        )


def _running_sentence(data: Path) -> str:
    state = read_state(data)
    supervisor = state.supervisor if state else None
    whose = f" (supervisor: process {supervisor.pid})" if supervisor else ""
    return (
        f"{data} belongs to a cluster that runs{whose}. "
        f"Look at it with: ottla cluster status --data {data}; end it with: ottla cluster down --data {data}"
    )
