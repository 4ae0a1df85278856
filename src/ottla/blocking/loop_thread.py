"""An event loop in a thread of its own, for programs that have no loop, or must not block theirs.

Rules
- `run` waits for a coroutine, `call` for a plain function; both run on the loop, and raise the exceptions
  raised there.
- An interrupted wait (Ctrl-C) cancels the work it waited for.
- Called on the loop itself, `call` calls at once. `run` refuses: it would wait for itself.
- The thread does not keep a program from ending; `end` finishes the remaining work and waits for it, with a
  limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")

# How long an interrupted call waits for its work to end. Work that takes longer is abandoned.
_CALL_OFF_S = 1.0


class LoopThread:
    """Runs from its constructor until `end`."""

    def __init__(self, name: str) -> None:
        self._process = os.getpid()  # a forked process has no threads but its own
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        self.loop = self._ready.result()

    @property
    def is_alive(self) -> bool:
        """Whether something can still be run."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Wait for a coroutine, which `work` makes on the loop: Ctrl-C could come between its making and its start.

        TimeoutError, and it is cancelled, if that takes longer than `timeout_s`.
        """
        if self._is_here or not self.is_alive:
            self._refuse()
        errand = _Errand(work)
        try:
            self.loop.call_soon_threadsafe(errand.begin)
            return errand.outcome.result(timeout_s)
        except BaseException:
            if not errand.outcome.done():
                self._call_off(errand)
            raise

    def _call_off(self, errand: _Errand[T]) -> None:
        """Cancel work that no caller waits for any more, before the next call starts."""
        self.loop.call_soon_threadsafe(errand.cancel)
        wait([errand.outcome], _CALL_OFF_S)

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """The result of a plain function, called on the loop."""
        if self._is_here:
            return function(*args, **kwargs)
        if not self.is_alive:
            self._refuse()
        outcome: Future[T] = Future()

        def answer() -> None:
            try:
                outcome.set_result(function(*args, **kwargs))
            except BaseException as error:
                outcome.set_exception(error)

        self.loop.call_soon_threadsafe(answer)
        return outcome.result()

    def end(
        self, last: Callable[[], Coroutine[Any, Any, object]] | None = None, wait_s: float = 10.0
    ) -> None:
        """Run one last coroutine if there is one, cancel all tasks, and end the thread.

        May be called twice.
        """
        if not self._thread.is_alive():
            return
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self.loop.call_soon_threadsafe(self._finish, last)
        if not self._is_here:
            self._thread.join(wait_s)

    @property
    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def _refuse(self) -> NoReturn:
        if self._is_here:
            raise RuntimeError(
                "this would wait for itself: a callback runs on the client's own event loop, where only calls that do not"
                " wait are possible; hand the work to your own thread"
            )
        if os.getpid() != self._process:
            raise RuntimeError("this client was made before the process forked: make one in the new process")
        raise RuntimeError("this client is closed: make another one")

    def _main(self) -> None:
        # When the program ends, a newer Python starts no more threads: not even those that would end others.
        with contextlib.suppress(RuntimeError):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        self._last: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._ready.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
        if self._last is not None:
            # No caller is left that could be told of a failure.
            with contextlib.suppress(Exception):
                await self._last()

    def _finish(self, last: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
        self._last = self._last or last
        self._stopping.set()


class _Errand(Generic[T]):
    """A coroutine that one thread waits for and another runs.

    It can be cancelled at any moment, because Ctrl-C can come at any moment.
    """

    __slots__ = ("_task", "_work", "outcome")

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.outcome: Future[T] = Future()

    def begin(self) -> None:
        if self.outcome.done():
            return
        self._task = asyncio.get_running_loop().create_task(self._work())
        self._task.add_done_callback(self._finished)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._called_off()

    def _finished(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._called_off()
        elif (failure := task.exception()) is not None:
            self.outcome.set_exception(failure)
        else:
            self.outcome.set_result(task.result())

    def _called_off(self) -> None:
        self.outcome.cancel()
        self.outcome.set_running_or_notify_cancel()  # wakes a caller that waits for the end
