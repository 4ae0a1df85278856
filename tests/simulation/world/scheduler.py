"""Virtual time and the order in which processes run.

Rules
- Time moves only when no process has anything to do, and by a moment for each turn that a process takes.
- Within one process callbacks run in the order in which asyncio would run them. Which of several processes runs next is
  drawn from the seed.
- Everything is drawn from one generator, so that a seed replays a run exactly. The trace is a checksum over all turns
  and deliveries: two runs with the same trace did the same.
"""

import asyncio
import gc
import random
import sys
import warnings
import zlib
from asyncio import events
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from tests.simulation.world.network import Network
from tests.simulation.world.object_store import WorldStore
from tests.simulation.world.process import ProcessLoop

# What a turn of an event loop takes. A process that polls in a loop would stop the world otherwise.
TURN_S: Final = 1e-5


class StuckError(RuntimeError):
    """Nothing will ever happen again."""


class World:
    """Everything that runs in one story."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.now = 0.0
        self.trace = 0
        self.turns = 0
        self.problems: list[str] = []
        # The arguments of a client's constructor with which it reaches the cluster, by the client's name.
        self.access: Callable[[str], dict[str, Any]] = lambda name: {}
        self.network = Network(self)
        self.store = WorldStore(Random(seed))
        self.processes: list[ProcessLoop] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._runnable: list[ProcessLoop] = []
        random.seed(seed)

    def start(self, name: str, host: str) -> ProcessLoop:
        """A new process on a host."""
        process = ProcessLoop(self, name, host)
        self.processes.append(process)
        return process

    def at(self, when: float, callback: Callable[[], None]) -> None:
        """Call back at a time, outside of all processes."""
        self._sequence += 1
        heappush(self._timers, (when, self._sequence, callback))

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after a while, outside of all processes."""
        self.at(self.now + seconds, callback)

    def runnable(self, process: ProcessLoop) -> None:
        """A process has something to do."""
        self._runnable.append(process)

    def note(self, number: int, data: bytes) -> None:
        """Mix what arrives at a process into the trace."""
        self.trace = hash((self.trace, self.now, number, zlib.crc32(data)))

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Run until a condition holds; False if it does not by `limit_s` of virtual time."""
        timers, runnable, dice = self._timers, self._runnable, self.dice
        set_running_loop = events._set_running_loop
        before = events._get_running_loop()
        try:
            while not until():
                if self.now > limit_s:
                    return False
                if timers and timers[0][0] <= self.now:
                    set_running_loop(None)
                    while timers and timers[0][0] <= self.now:
                        heappop(timers)[2]()
                if runnable:
                    waiting = len(runnable)
                    process = runnable.pop(int(dice.random() * waiting) if waiting > 1 else 0)
                    self.turns += 1
                    self.now += TURN_S
                    # Hashes of numbers are the same in every process.
                    self.trace = hash((self.trace, self.now, process.number))
                    set_running_loop(process)
                    process.turn()
                elif timers:
                    self.now = max(self.now, timers[0][0])
                else:
                    raise StuckError(f"at {self.now:.3f} s nothing is left to happen")
        finally:
            events._set_running_loop(before)
        return True

    def complete(self, process: ProcessLoop, work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        """Run until a coroutine in a process has ended; its result. TimeoutError if that takes too long."""
        task = process.create_task(work)
        if not self.run(task.done, limit_s):
            raise TimeoutError(f"not done by {self.now:.1f} s")
        return task.result()

    def bury(self) -> None:
        """Throw the world away: nothing that still waits in it says or does anything any more."""
        for process in self.processes:
            process.kill()
        hook = sys.unraisablehook
        sys.unraisablehook = lambda _: None
        # `finally` blocks of coroutines that are thrown away may ask asyncio for the running loop: without one it
        # would make a real loop, and leave it open.
        before = events._get_running_loop()
        events._set_running_loop(self.start("grave", "grave"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that never began
                self._timers.clear()
                for process in self.processes:
                    process.forget()
                self.processes.clear()
                gc.collect()
        finally:
            events._set_running_loop(before)
            sys.unraisablehook = hook


def current_process() -> ProcessLoop:
    """The process whose code runs now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    return loop
