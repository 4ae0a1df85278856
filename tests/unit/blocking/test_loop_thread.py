"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from ottla.blocking.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    running = LoopThread("test")
    yield running
    running.end()
    assert "test" not in {each.name for each in threading.enumerate()}


async def name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def fails() -> None:
    raise LookupError("as told")


def test_what_is_run_and_called_happens_on_the_thread(thread: LoopThread) -> None:
    assert thread.run(name) == "test"
    assert thread.call(lambda: threading.current_thread().name) == "test"
    assert thread.call(asyncio.get_running_loop) is thread.loop


def test_what_is_raised_there_is_raised_here(thread: LoopThread) -> None:
    async def failing() -> None:
        fails()

    with pytest.raises(LookupError, match="as told"):
        thread.run(failing)
    with pytest.raises(LookupError, match="as told"):
        thread.call(fails)


def test_work_that_takes_too_long_is_cancelled(thread: LoopThread) -> None:
    cancelled = threading.Event()

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    thread.run(name)  # the thread is awake: work that has not begun has nothing to clean up
    with pytest.raises(TimeoutError):
        thread.run(long, timeout_s=0.3)
    assert cancelled.wait(10)


def test_on_the_thread_itself_waiting_is_refused_and_calling_is_calling(thread: LoopThread) -> None:
    with pytest.raises(RuntimeError, match="would wait for itself"):
        thread.call(lambda: thread.run(name))
    assert thread.call(lambda: thread.call(lambda: 7)) == 7


def test_an_ended_thread_refuses_and_may_be_ended_again(thread: LoopThread) -> None:
    last: list[str] = []

    async def say() -> None:
        last.append(await name())
        fails()  # nobody is there to be told

    thread.end(say)
    thread.end()
    assert last == ["test"]
    assert not thread.is_alive
    with pytest.raises(RuntimeError, match="closed"):
        thread.run(name)
    with pytest.raises(RuntimeError, match="closed"):
        thread.call(lambda: 7)
