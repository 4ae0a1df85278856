"""The event loop of one process, on the world's time.

A killed process runs no callback any more, and keeps everything that waited: if a waiting coroutine were thrown away
while the world goes on, its `finally` blocks would run in a process that is gone.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.simulation.world.threads import SimulatedPool

if TYPE_CHECKING:
    from tests.simulation.world.scheduler import World
    from tests.simulation.world.sockets import Readable


# Typed as Any: asyncio's stubs are generic over the tuples of arguments, and know methods that no shipped code calls.
_AnyLoop: Any = asyncio.AbstractEventLoop


class ProcessLoop(_AnyLoop):  # type: ignore[misc]
    """An event loop that the world gives turns to. `host` is the machine it runs on, for the network."""

    def __init__(self, world: World, name: str, host: str) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.number = len(world.processes)
        self.is_dead = False
        self.is_paused = False
        self.clock_offset_s = 0.0
        self.on_killed: Callable[[], None] | None = None
        self._ready: deque[asyncio.Handle] = deque()
        self._is_queued = False
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
        self._waking: set[int] = set()
        self._tasks: list[asyncio.Task[Any]] = []
        self._graveyard: list[Any] = []
        self._pool = SimulatedPool(self, 8)
        self.sockets: dict[int, Readable] = {}

    # ---- its life

    def turn(self) -> None:
        """Run the callbacks that are ready now, as one turn of asyncio's loop does."""
        self._is_queued = False
        ready = self._ready
        for _ in range(len(ready)):
            if self.is_dead or self.is_paused:
                return
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if ready:
            self._queue()

    def pause(self) -> None:
        """As SIGSTOP: nothing runs, while the kernel goes on receiving."""
        self.is_paused = True

    def go_on(self) -> None:
        """As SIGCONT."""
        self.is_paused = False
        self._queue()

    def kill(self) -> None:
        """As SIGKILL: nothing of the process runs any more."""
        if self.is_dead:
            return
        self.is_dead = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        if self.on_killed is not None:
            self.on_killed()

    def forget(self) -> None:
        """Let go of what waited in a process that was killed. The `finally` blocks that run now find nothing to do."""
        for task in self._tasks:
            with suppress(BaseException):
                task.get_coro().close()
        for held in (self._ready, self._tasks, self._graveyard):
            held.clear()
        self._readers.clear()
        self._writers.clear()
        self.sockets.clear()

    def _queue(self) -> None:
        if not self._is_queued and self._ready and not self.is_paused and not self.is_dead:
            self._is_queued = True
            self.world.runnable(self)

    # ---- callbacks and timers

    def time(self) -> float:
        return self.world.now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not (self._is_queued or self.is_paused or self.is_dead):
            self._is_queued = True
            self.world.runnable(self)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.world.at(when, lambda: self._due(handle))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.world.now + delay, callback, *args, context=context)

    def _due(self, handle: asyncio.TimerHandle) -> None:
        if self.is_dead:
            self._graveyard.append(handle)
        elif not handle._cancelled:
            self._ready.append(handle)
            if not self._is_queued:
                self._queue()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Asyncio's handles tell; the timer finds its handle cancelled."""

    # ---- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, context=context)
        self._tasks.append(task)
        if len(self._tasks) > 1000:
            self._tasks = [task for task in self._tasks if not task.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.is_dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_dead:
            self.world.problems.append(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        pool: SimulatedPool = executor or self._pool
        return pool.run(func, *args)

    # ---- sockets

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self, None)
        self.wake(fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        self._writers[fd] = asyncio.Handle(callback, args, self, None)
        self.wake(fd)

    def remove_writer(self, fd: Any) -> bool:
        return self._writers.pop(fd, None) is not None

    def wake(self, fd: int) -> None:
        """Look in the next turn whether a socket can be read or written."""
        if fd not in self._waking:
            self._waking.add(fd)
            self.call_soon(self._look_at, fd)

    def _look_at(self, fd: int) -> None:
        self._waking.discard(fd)
        is_busy = False
        for watchers, attribute in ((self._readers, "is_readable"), (self._writers, "is_writable")):
            socket, watcher = self.sockets.get(fd), watchers.get(fd)
            if socket is not None and watcher is not None and getattr(socket, attribute):
                watcher._run()
                is_busy |= fd in watchers
        socket = self.sockets.get(fd)
        if (
            is_busy
            and socket is not None
            and ((fd in self._readers and socket.is_readable) or (fd in self._writers and socket.is_writable))
        ):
            self.wake(fd)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self.world.network.connect(self, protocol_factory, port)

    def in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine from outside of the process."""
        return self.create_task(work)
