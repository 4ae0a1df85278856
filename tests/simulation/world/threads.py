"""Thread pools of one process: a piece of work takes virtual time, then runs as a whole.

With one thread the pieces run in order; with several a slow one is overtaken. A paused process's threads stand still, a
killed process's never finish.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.world.disk import SimulatedCrash

if TYPE_CHECKING:
    from tests.simulation.world.process import ProcessLoop

_FASTEST_S: Final = 0.00005
_USUAL_S: Final = 0.002
# A paused process is looked at so often.
_PAUSED_S: Final = 0.01


class SimulatedPool(Executor):
    """`slowness` multiplies the time that work takes; while it is infinite, nothing begins."""

    def __init__(self, process: ProcessLoop, size: int, slowness: Callable[[], float] = lambda: 1.0) -> None:
        self._process = process
        self._size = size
        self._slowness = slowness
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._busy = 0

    def run(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """As `loop.run_in_executor`."""
        process = self._process
        told: asyncio.Future[Any] = process.create_future()

        def tell(done: Future[Any]) -> None:
            process.call_soon(_pass_on, done, told)

        self._put(function, args).add_done_callback(tell)
        return told

    def submit(self, function: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        return self._put(function, args)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish what waits, now."""
        while self._waiting:
            self._do(*self._waiting.popleft())

    def _put(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, function, args))
        if self._busy < self._size:
            self._busy += 1
            self._begin()
        return future

    def _begin(self) -> None:
        world = self._process.world
        if self._slowness() == inf:
            world.later(_PAUSED_S, self._begin)
            return
        took_s = _FASTEST_S + world.dice.random() ** 3 * _USUAL_S
        world.later(took_s * self._slowness(), self._finish)

    def _finish(self) -> None:
        process = self._process
        if process.is_dead:
            return
        if process.is_paused:
            process.world.later(_PAUSED_S, self._finish)
            return
        if self._waiting:
            with suppress(SimulatedCrash):
                self._do(*self._waiting.popleft())
        if self._waiting:
            self._begin()
        else:
            self._busy -= 1

    def _do(self, future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = function(*args)
        except SimulatedCrash:
            # Nobody is told: the process is dead. Whoever waits for this pool in another of its threads dies too.
            raise
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _pass_on(done: Future[Any], told: asyncio.Future[Any]) -> None:
    if told.done():
        return
    error = done.exception()
    if error is not None:
        told.set_exception(error)
    else:
        told.set_result(done.result())
