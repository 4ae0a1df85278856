"""The supervisor of a local cluster: it carries out commands, and ends all brokers at its own end.

It runs inside `ottla cluster up`, or as a process of its own (`launch`); in both cases other processes
command it through `control`. If it is killed before it can end its brokers, they run on; `orphans` finds them
by DIR/cluster.json.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, Final

from ottla.localcluster.control import ControlServer
from ottla.localcluster.fleet import Fleet
from ottla.localcluster.plan.cluster import plan_broker
from ottla.localcluster.ports import free_ports
from ottla.localcluster.proxy import CLIENTS, ClusterProxy, cut_summary, isolating
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.state import ClusterError, ClusterState, Condition, quorum_sentence
from ottla.localcluster.state_file import read_state

READY: Final = "The cluster is ready: "
UNTIL_EOF: Final = "--until-eof"


class Supervisor:
    """Runs one cluster. Its process holds the directory's lock; `say` takes a line for people."""

    def __init__(self, data: Path, state: ClusterState, say: Callable[[str], None]) -> None:
        self._data = data
        self._say = say
        self._proxy = ClusterProxy(state.host) if state.has_proxy else None
        self._fleet = Fleet(data, state, self._proxy, say)
        self._control = ControlServer(self._handle)
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._commands = {
            "state": self._tell,
            "down": self._down,
            "start": self._start,
            "stop": self._stop,
            "kill": self._kill,
            "pause": self._pause,
            "resume": self._resume,
            "add": self._add,
            "remove": self._remove,
            "cut": self._cut,
            "slow": self._slow,
            "reset": self._reset,
            "heal": self._heal,
        }

    async def run(self, *, ends_with: IO[Any] | None = None) -> None:
        """Start all brokers, carry out commands until the end is asked for, stop all brokers.

        The end is asked for by the command `down`, by a signal, or by the end of the file `ends_with`.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        if ends_with is not None:
            loop.add_reader(ends_with.fileno(), self._on_input, ends_with.fileno())
        try:
            door = await self._control.start(os.getpid())
            self._fleet.keep(replace(self._fleet.state, supervisor=door))
            await self._start_all()
            await self._stopping.wait()
            self._say("Stopping.")
        finally:
            await self._fleet.stop_all()
            if self._proxy is not None:
                await self._proxy.stop()
            self._fleet.keep(replace(self._fleet.state, supervisor=None))
            self._stopped.set()
            await self._control.stop()

    def _on_signal(self) -> None:
        """The first signal stops the brokers, the second kills them."""
        if self._stopping.is_set():
            self._fleet.kill_all_now()
        self._stopping.set()

    def _on_input(self, descriptor: int) -> None:
        if not os.read(descriptor, 1024):
            asyncio.get_running_loop().remove_reader(descriptor)
            self._stopping.set()

    async def _start_all(self) -> None:
        starting = asyncio.create_task(self._fleet.start_all())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            # Not cancelled: a process that is being started must be known to be stopped.
            self._fleet.end_soon()
            await asyncio.wait([starting])
            return
        starting.result()
        count, where = len(self._fleet.state.brokers), self._fleet.state.bootstrap
        ready = f"{READY}{count} broker{'s' if count > 1 else ''} at {where}, data in {self._data}"
        if self._fleet.state.is_secure:
            ready += f"\nTry: ottla topics list --config {SecurityFiles(self._data).client_properties}"
        self._say(ready)

    # ---- commands

    async def _handle(self, command: str, arguments: dict[str, Any]) -> Any:
        do: Any = self._commands.get(command)
        if do is None:
            raise ClusterError(f"The supervisor does not know the command {command!r}.")
        try:
            return await do(**arguments)
        except TypeError as error:
            raise ClusterError(f"The supervisor does not understand {command!r}: {error}.") from error

    async def _tell(self) -> dict[str, Any]:
        """The state, and the faults of the network."""
        cuts = cut_summary(self._proxy.links) if self._proxy is not None else []
        return {"state": asdict(self._fleet.state), "cuts": cuts}

    async def _down(self) -> dict[str, Any]:
        self._stopping.set()
        await self._stopped.wait()
        return {}

    async def _start(self, broker: int, wait: bool = True) -> dict[str, Any]:
        async with self._locks[broker]:
            process = await self._fleet.start(broker)
        problem = await self._fleet.until_ready(process) if wait else None
        return {"pid": process.pid, "problem": problem}

    async def _stop(self, broker: int) -> dict[str, Any]:
        async with self._locks[broker]:
            process, has_stopped = await self._fleet.stop(broker)
        return {"pid": process.pid, "has_stopped": has_stopped, **self._quorum()}

    async def _kill(self, broker: int) -> dict[str, Any]:
        # No lock: a broker that is being stopped can be killed like any other.
        process = await self._fleet.kill(broker)
        return {"pid": process.pid, **self._quorum()}

    async def _pause(self, broker: int) -> dict[str, Any]:
        process = self._fleet.signal(broker, signal.SIGSTOP, Condition.PAUSED)
        return {"pid": process.pid, **self._quorum()}

    async def _resume(self, broker: int) -> dict[str, Any]:
        return {"pid": self._fleet.signal(broker, signal.SIGCONT, Condition.RUNNING).pid}

    async def _add(self, rack: str | None = None) -> dict[str, Any]:
        state = self._fleet.state

        def ports(count: int, taken: Sequence[int]) -> list[int]:
            return free_ports(state.host, count, taken)

        broker = plan_broker(state, rack, ports)
        process = await self._fleet.spawn(broker)
        problem = await self._fleet.until_ready(process)
        return {"broker": broker.node_id, "pid": process.pid, "problem": problem}

    async def _remove(self, broker: int) -> dict[str, Any]:
        if self._fleet.state.broker(broker).condition.has_process:
            raise ClusterError(f"Broker {broker} runs: stop it first.")
        if broker in self._fleet.state.voters:
            raise ClusterError(f"Broker {broker} is a voter of the quorum, and the voters are fixed.")
        self._fleet.forget(broker)
        return {}

    async def _cut(
        self, broker: int, other: int | None = None, one_way: bool = False, clients: bool = False
    ) -> dict[str, Any]:
        proxy = self._needed_proxy()
        proxy.links.cut(isolating(broker, self._others(broker, other, clients), one_way=one_way))
        return {"cuts": cut_summary(proxy.links)}

    async def _slow(self, broker: int, ms: float, other: int | None = None) -> dict[str, Any]:
        proxy = self._needed_proxy()
        proxy.links.slow(isolating(broker, self._others(broker, other, clients=True)), ms / 1000)
        return {"cuts": cut_summary(proxy.links)}

    async def _reset(self, broker: int, other: int | None = None) -> dict[str, Any]:
        proxy = self._needed_proxy()
        return {"ended": sum(proxy.reset(broker, each) for each in self._others(broker, other, clients=True))}

    async def _heal(self, broker: int | None = None) -> dict[str, Any]:
        proxy = self._needed_proxy()
        proxy.links.heal(broker)
        return {"cuts": cut_summary(proxy.links)}

    def _others(self, broker: int, other: int | None, clients: bool) -> list[int]:
        """The nodes that a fault of the network isolates a broker from: one other, or all."""
        state = self._fleet.state
        if other is not None and state.broker(other) == state.broker(broker):
            raise ClusterError("A broker cannot be cut off from itself.")
        if other is not None:
            return [other]
        ids = [each.node_id for each in state.brokers if each != state.broker(broker)]
        return [*ids, CLIENTS] if clients else ids

    def _needed_proxy(self) -> ClusterProxy:
        if self._proxy is None:
            raise ClusterError(
                "The network can be broken only where it passes through a proxy: start the cluster with --proxy."
            )
        return self._proxy

    def _quorum(self) -> dict[str, Any]:
        return {"quorum": quorum_sentence(self._fleet.state, self._data)}


def main(arguments: list[str]) -> None:
    """The supervisor as a process of its own: the state is written already, and the lock inherited.

    Its standard output is DIR/supervisor.log.
    """
    data = Path(arguments[0])
    state = read_state(data)
    assert state is not None, "`launch` has written the state"
    ends_with = sys.stdin if UNTIL_EOF in arguments else None

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    async def run() -> None:
        await Supervisor(data, state, say).run(ends_with=ends_with)

    try:
        asyncio.run(run())
    except ClusterError as error:
        say(f"Error: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
