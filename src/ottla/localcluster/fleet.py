"""The processes of a local cluster: started, watched, ended, and all that written down in DIR/cluster.json.

It restarts nobody. A broker that died by itself is worth a look: its last words are said, and a person decides.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.localcluster.broker_process import BrokerProcess, start_process
from ottla.localcluster.cluster_plan import broker_command, broker_output
from ottla.localcluster.ports import port_trouble
from ottla.localcluster.proxy import ClusterProxy
from ottla.localcluster.state import (
    BrokerState,
    ClusterError,
    ClusterState,
    Condition,
    quorum_sentence,
    write_state,
)

READY_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.01


class Fleet:
    """The brokers of one cluster. `proxy`, if there is one, has a door for each that has a process."""

    def __init__(
        self, data: Path, state: ClusterState, proxy: ClusterProxy | None, say: Callable[[str], None]
    ) -> None:
        self.state = state
        self._data = data
        self._proxy = proxy
        self._say = say
        self._processes: dict[int, BrokerProcess] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._is_up = False
        self._is_ending = False

    def keep(self, state: ClusterState) -> None:
        """This is how things are now; write it down."""
        self.state = state
        write_state(self._data, state)

    def living(self, node_id: int) -> BrokerProcess:
        """A broker's process; ClusterError if it has none."""
        broker, process = self.state.broker(node_id), self._processes.get(node_id)
        if process is None or process.exit_status is not None:
            raise ClusterError(f"Broker {node_id} has no process: it is {broker.condition}.")
        return process

    async def start_all(self) -> None:
        """Start all and wait for all; ClusterError if one does not come up."""
        for broker in self.state.brokers:
            self._refuse_trouble(broker)
        processes = [await self.spawn(broker) for broker in self.state.brokers if not self._is_ending]
        problems = await asyncio.gather(*map(self.until_ready, processes))
        if late := [problem for problem in problems if problem]:
            raise ClusterError("\n".join(late))
        self._is_up = True

    async def start(self, node_id: int) -> BrokerProcess:
        """Start a broker that has no process; it is not ready yet."""
        broker = self.state.broker(node_id)
        if broker.condition.has_process:
            raise ClusterError(f"Broker {node_id} runs already (process {broker.pid}).")
        self._refuse_trouble(broker)
        return await self.spawn(broker)

    async def spawn(self, broker: BrokerState) -> BrokerProcess:
        """Start a process for a broker, known or new."""
        if self._proxy is not None:
            await self._proxy.open_door(broker.node_id, broker.advertised_port, broker.port)
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

    async def until_ready(self, process: BrokerProcess) -> str | None:
        """Wait until it serves; answers what went wrong. Without a quorum there is nothing to wait for."""
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

    async def stop(self, node_id: int) -> tuple[BrokerProcess, bool]:
        """Stop a broker as its operator would; answers whether it did so in time."""
        process = self.living(node_id)
        has_stopped = await process.stop(STOP_DEADLINE_S)
        self._note_end(process, Condition.STOPPED)
        return process, has_stopped

    async def kill(self, node_id: int) -> BrokerProcess:
        """End a broker as a crash would."""
        process = self.living(node_id)
        await process.kill()
        self._note_end(process, Condition.KILLED)
        return process

    def signal(self, node_id: int, number: signal.Signals, condition: Condition) -> BrokerProcess:
        """Send a signal that a broker lives through, and note what it does now."""
        process = self.living(node_id)
        process.send(number)
        self.keep(self.state.with_broker(replace(self.state.broker(node_id), condition=condition)))
        return process

    def forget(self, node_id: int) -> None:
        """A broker without a process is no longer part of the cluster."""
        self._processes.pop(node_id, None)
        self.keep(self.state.without_broker(node_id))

    def end_soon(self) -> None:
        """Start no more, and wait for nobody to be ready."""
        self._is_ending = True

    async def stop_all(self) -> None:
        """End every process, and do not return before that."""
        self.end_soon()
        living = [each for each in self._processes.values() if each.exit_status is None]
        stops = await asyncio.gather(*(process.stop(STOP_DEADLINE_S) for process in living))
        for process, has_stopped in zip(living, stops, strict=True):
            self._note_end(process, Condition.STOPPED)
            if not has_stopped:
                self._say(f"Broker {process.node_id} did not stop in {STOP_DEADLINE_S:.0f} s and was killed.")

    def kill_all_now(self) -> None:
        """For an impatient person: whoever stops them is waiting already."""
        for process in self._processes.values():
            process.send(signal.SIGKILL)

    async def _watch_start(self, process: BrokerProcess) -> None:
        """Note when it is ready, however long that takes."""
        if await process.ready():
            broker = self.state.broker(process.node_id)
            if broker.pid == process.pid and broker.condition == Condition.STARTING:
                self.keep(self.state.with_broker(replace(broker, condition=Condition.RUNNING)))

    async def _watch(self, process: BrokerProcess) -> None:
        """Whoever ends a process notes that; this is for those that end by themselves."""
        await process.ended()
        if process.end_is_wanted:
            return
        if not process.is_awaited:  # who waits for it will say the same
            self._say(self._end_words(process))
        self._note_end(process, Condition.DIED)

    def _end_words(self, process: BrokerProcess) -> str:
        how = _exit_words(process.exit_status)
        return f"Broker {process.node_id} {how}. Its last words:\n{process.last_words()}"

    def _note_end(self, process: BrokerProcess, condition: Condition) -> None:
        """Write down that a process is gone. Its door is shut at once, so that nobody knocks in vain."""
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
        """ClusterError if a broker, or the door before it, could not listen."""
        for port in sorted({broker.port, broker.advertised_port}):
            if trouble := port_trouble(self.state.host, port):
                raise ClusterError(f"Broker {broker.node_id} cannot start: {trouble}.")


def _exit_words(status: int | None) -> str:
    if status is None:
        return f"is not ready after {READY_DEADLINE_S:.0f} s"
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was ended by {signal.Signals(-status).name}"
