"""A class that waits, made from a class that is awaited."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

import pytest

from ottla.blocking.facade import blocking_class


class Later:
    """Something to be awaited."""

    def __await__(self) -> Generator[Any, None, str]:
        yield from asyncio.sleep(0).__await__()
        return "later"

    def done(self) -> bool:
        return True


class Clock:
    """Opens in `async with`, which says so."""

    opened: list[str] = []

    def __init__(self, name: str, *, fails: bool = False) -> None:
        asyncio.get_running_loop()  # clients may be made on their loop only
        self.name = name
        self._fails = fails

    async def __aenter__(self) -> Clock:
        if self._fails:
            raise LookupError("cannot open")
        self.opened.append(self.name)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(kind)

    async def close(self, kind: type[BaseException] | None = None) -> None:
        self.opened.remove(self.name)
        if kind is not None:
            self.opened.append(f"{self.name} left by {kind.__name__}")

    async def wait(self, ms: float = 0) -> str:
        """Wait for a time."""
        await asyncio.sleep(ms / 1000)
        return threading.current_thread().name

    def thread(self) -> str:
        return threading.current_thread().name

    def rest(self) -> Awaitable[str]:
        return Later()

    def soon(self) -> Later:
        return Later()

    def ring(self, callback: Callable[[], object]) -> object:
        return callback()

    async def ticks(self) -> AsyncIterator[int]:
        for number in range(3):
            yield number

    def __aiter__(self) -> AsyncIterator[int]:
        return self.ticks()

    @property
    def title(self) -> str:
        """Its name, in capitals."""
        return self.name.upper()


Blocking = blocking_class(Clock)
OWN = "ottla.blocking.Clock"


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    Clock.opened.clear()


def test_what_is_awaited_is_waited_for_on_a_thread_of_its_own() -> None:
    with Blocking("a") as clock:
        assert clock.wait(1) == clock.thread() == OWN
        assert clock.rest() == "later"
        assert clock.title == "A"
        assert Clock.opened == ["a"]
    assert Clock.opened == []
    assert OWN not in {each.name for each in threading.enumerate()}


def test_async_for_is_for_and_what_comes_later_has_a_result() -> None:
    with Blocking("a") as clock:
        assert list(clock) == list(clock.ticks()) == [0, 1, 2]
        later = clock.soon()
        assert (later.done(), later.result(), later.result(timeout_s=1)) == (True, "later", "later")


def test_it_works_inside_a_running_loop_as_in_a_notebook() -> None:
    async def cell() -> str:
        with Blocking("a") as clock:
            return str(clock.wait(1))

    assert asyncio.run(cell()) == OWN


def test_whoever_leaves_by_an_exception_is_known_to_the_client() -> None:
    with pytest.raises(KeyboardInterrupt), Blocking("a"):
        raise KeyboardInterrupt
    assert Clock.opened == ["a left by KeyboardInterrupt"]


def test_what_cannot_open_leaves_no_thread() -> None:
    with pytest.raises(LookupError, match="cannot open"):
        Blocking("a", fails=True)
    assert OWN not in {each.name for each in threading.enumerate()}


def test_it_may_be_closed_twice_and_is_of_no_use_then() -> None:
    clock = Blocking("a")
    clock.close()
    clock.close()
    assert Clock.opened == []
    with pytest.raises(RuntimeError, match="closed"):
        clock.wait()
    with pytest.raises(RuntimeError, match="closed"):
        clock.thread()


def test_what_nobody_holds_any_more_is_closed() -> None:
    clock = Blocking("a")
    del clock
    gc.collect()
    assert Clock.opened == []


def test_a_callback_may_call_what_answers_at_once_and_must_not_wait() -> None:
    with Blocking("a") as clock:
        assert clock.ring(clock.thread) == OWN
        with pytest.raises(RuntimeError, match="would wait for itself"):
            clock.ring(clock.wait)


def test_names_signatures_and_documentation_are_those_of_the_class_it_is_made_from() -> None:
    assert Blocking.__name__ == "Clock"
    assert Blocking.__doc__ == "Opens when it is made, which says so."
    assert Blocking.wait.__doc__ == "Wait for a time."
    assert str(inspect.signature(Blocking.wait)) == "(self, ms: 'float' = 0) -> 'str'"
    assert not inspect.iscoroutinefunction(Blocking.wait)
    assert Blocking.title.__doc__ == "Its name, in capitals."
    assert "fails" in inspect.signature(Blocking).parameters
