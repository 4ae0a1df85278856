"""The broker processes of a local cluster: started, watched, ended, their conditions in DIR/cluster.json.

A broker that ends by itself is not restarted: its last output is reported, and a person decides.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.localcluster.plan.cluster import broker_output, broker_settings
from ottla.localcluster.ports import port_trouble
from ottla.localcluster.proxy import CLIENTS, ClusterProxy
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.socket_owner import can_tell_owners, owner_of
from ottla.localcluster.state import (
    BrokerState,
    ClusterError,
    ClusterState,
    Condition,
    quorum_sentence,
)
from ottla.localcluster.state_file import write_state
from ottla.localcluster.supervised_process import SupervisedProcess, start_process

READY_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.01


class Fleet:
    """The brokers of one cluster. The proxy, if there is one, listens for each broker that has a process."""

    def __init__(
        self, data: Path, state: ClusterState, proxy: ClusterProxy | None, say: Callable[[str], None]
    ) -> None:
        self.state = state
        self._data = data
        self._proxy = proxy
        self._say = say
        self._processes: dict[int, SupervisedProcess] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._is_up = False
        self._is_ending = False

    def keep(self, state: ClusterState) -> None:
        """Take a new state and write it to DIR/cluster.json."""
        self.state = state
        write_state(self._data, state)

    def living(self, node_id: int) -> SupervisedProcess:
        """A broker's process; ClusterError if it has none."""
        broker, process = self.state.broker(node_id), self._processes.get(node_id)
        if process is None or process.exit_status is not None:
            raise ClusterError(f"Broker {node_id} has no process: it is {broker.condition}.")
        return process

    async def start_all(self) -> None:
        """Start all brokers and wait until all serve; ClusterError if one does not."""
        if self.state.is_secure and self.state.has_proxy and not can_tell_owners():
            raise ClusterError(
                "A secured cluster can have a proxy on Linux only: elsewhere the proxy cannot tell brokers apart."
            )
        for broker in self.state.brokers:
            self._refuse_trouble(broker)
        processes = [await self.spawn(broker) for broker in self.state.brokers if not self._is_ending]
        problems = await asyncio.gather(*map(self.until_ready, processes))
        if late := [problem for problem in problems if problem]:
            raise ClusterError("\n".join(late))
        self._is_up = True

    async def start(self, node_id: int) -> SupervisedProcess:
        """Start a broker that has no process, without waiting until it serves."""
        broker = self.state.broker(node_id)
        if broker.condition.has_process:
            raise ClusterError(f"Broker {node_id} runs already (process {broker.pid}).")
        self._refuse_trouble(broker)
        return await self.spawn(broker)

    async def spawn(self, broker: BrokerState) -> SupervisedProcess:
        """Start a process for a broker of the cluster, or for one that joins it."""
        if self._proxy is not None:
            await self._open_doors(self._proxy, broker)
        state = self.state.with_broker(broker)
        command = broker_command(self._data, state, broker)
        process = await start_process(broker.node_id, command, broker_output(self._data, broker.node_id))
        self._processes[broker.node_id] = process
        for watch in (self._watch(process), self._watch_start(process)):
            task = asyncio.create_task(watch)
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)
        self.keep(
            state.with_broker(
                replace(
                    broker,
                    condition=Condition.STARTING,
                    pid=process.pid,
                    process_started=process.started,
                    exit_status=None,
                )
            )
        )
        return process

    async def _open_doors(self, proxy: ClusterProxy, broker: BrokerState) -> None:
        """In a secured cluster each broker has one door for clients and one for brokers, which are known by their
        processes.
        """
        if broker.inner_port is None or broker.own_inner_port is None:
            await proxy.open_door(broker.node_id, broker.advertised_port, broker.port)
            return
        await proxy.open_door(broker.node_id, broker.advertised_port, broker.port, _sent_by_a_client)
        await proxy.open_door(broker.node_id, broker.inner_port, broker.own_inner_port, self._sender_of)

    async def _sender_of(self, connection: asyncio.StreamWriter) -> int:
        nodes = {each.pid: each.node_id for each in self.state.brokers if each.pid is not None}
        port, door = connection.get_extra_info("peername")[1], connection.get_extra_info("sockname")[1]
        pid = await asyncio.to_thread(owner_of, port, door, list(nodes))
        return CLIENTS if pid is None else nodes[pid]

    async def until_ready(self, process: SupervisedProcess) -> str | None:
        """Wait until a broker serves, or the quorum is lost; returns the problem if it does not serve."""
        process.is_awaited = True
        deadline = asyncio.get_running_loop().time() + READY_DEADLINE_S
        while self.state.broker(process.node_id).condition == Condition.STARTING:
            is_late = asyncio.get_running_loop().time() > deadline
            if is_late or self._is_ending or not self.state.has_quorum:
                break
            await asyncio.sleep(_LOOK_AGAIN_S)
        process.is_awaited = False
        if self.state.broker(process.node_id).condition == Condition.RUNNING:
            return None
        lost = quorum_sentence(self.state, self._data)
        if process.exit_status is None and lost:
            return f"Broker {process.node_id} runs and waits for the others. {lost}"
        return self._end_words(process)

    async def stop(self, node_id: int) -> tuple[SupervisedProcess, bool]:
        """Stop a broker as its operator would; returns its process and whether it stopped in time."""
        process = self.living(node_id)
        has_stopped = await process.stop(STOP_DEADLINE_S)
        self._note_end(process, Condition.STOPPED)
        return process, has_stopped

    async def kill(self, node_id: int) -> SupervisedProcess:
        """End a broker as a crash would."""
        process = self.living(node_id)
        await process.kill()
        self._note_end(process, Condition.KILLED)
        return process

    def signal(self, node_id: int, number: signal.Signals, condition: Condition) -> SupervisedProcess:
        """Send a signal that does not end a broker, and record its new condition."""
        process = self.living(node_id)
        process.send(number)
        self.keep(self.state.with_broker(replace(self.state.broker(node_id), condition=condition)))
        return process

    def forget(self, node_id: int) -> None:
        """Take a broker without a process out of the cluster."""
        self._processes.pop(node_id, None)
        self.keep(self.state.without_broker(node_id))

    def end_soon(self) -> None:
        """Start no more brokers, and stop waiting for those that start."""
        self._is_ending = True

    async def stop_all(self) -> None:
        """End every process and wait for that."""
        self.end_soon()
        living = [each for each in self._processes.values() if each.exit_status is None]
        stops = await asyncio.gather(*(process.stop(STOP_DEADLINE_S) for process in living))
        for process, has_stopped in zip(living, stops, strict=True):
            self._note_end(process, Condition.STOPPED)
            if not has_stopped:
                self._say(f"Broker {process.node_id} did not stop in {STOP_DEADLINE_S:.0f} s and was killed.")

    def kill_all_now(self) -> None:
        """Send SIGKILL to every process; `stop_all` is waiting for their end already."""
        for process in self._processes.values():
            process.send(signal.SIGKILL)

    async def _watch_start(self, process: SupervisedProcess) -> None:
        """Record that a broker is ready, however long that takes."""
        if await process.ready():
            broker = self.state.broker(process.node_id)
            if broker.pid == process.pid and broker.condition == Condition.STARTING:
                self.keep(self.state.with_broker(replace(broker, condition=Condition.RUNNING)))

    async def _watch(self, process: SupervisedProcess) -> None:
        """Record the end of a process that was not asked to end."""
        await process.ended()
        if process.end_is_wanted:
            return
        if not process.is_awaited:  # `until_ready` returns the same sentence
            self._say(self._end_words(process))
        self._note_end(process, Condition.DIED)

    def _end_words(self, process: SupervisedProcess) -> str:
        how = _exit_words(process.exit_status)
        return f"Broker {process.node_id} {how}. Its last words:\n{process.last_words()}"

    def _note_end(self, process: SupervisedProcess, condition: Condition) -> None:
        """Record the end of a process. The proxy stops listening at once, so that connections are refused."""
        broker = self.state.broker(process.node_id)
        if broker.pid != process.pid:
            return
        if self._proxy is not None:
            self._proxy.shut_door(process.node_id)
        status = process.exit_status
        ended = replace(broker, condition=condition, pid=None, process_started=None, exit_status=status)
        self.keep(self.state.with_broker(ended))
        lost = quorum_sentence(self.state, self._data)
        if lost and self._is_up and not self._is_ending:
            self._say(lost)

    def _refuse_trouble(self, broker: BrokerState) -> None:
        """ClusterError if a broker, or the proxy in front of it, could not listen."""
        for port in broker.ports:
            if trouble := port_trouble(self.state.host, port):
                raise ClusterError(f"Broker {broker.node_id} cannot start: {trouble}.")


async def _sent_by_a_client(connection: asyncio.StreamWriter) -> int:
    return CLIENTS


def broker_command(data: Path, state: ClusterState, broker: BrokerState) -> list[str]:
    """The command line of one broker's process."""
    command = [sys.executable, "-m", "ottla.cli.main", "serve"]
    if state.is_secure:
        files = SecurityFiles(data)
        own = files.own_properties(broker.node_id)
        for file in (files.broker_properties, own) if own.exists() else (files.broker_properties,):
            command += ["--config", str(file)]
    for name, value in broker_settings(data, state, broker).items():
        command += ["--set", f"{name}={value}"]
    return command


def _exit_words(status: int | None) -> str:
    if status is None:
        return f"is not ready after {READY_DEADLINE_S:.0f} s"
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was ended by {signal.Signals(-status).name}"
