"""Makes a blocking class from an asyncio class.

Rules
- Every public method and property of the asyncio class is there, with its name and arguments. A coroutine
  method blocks until it is done; a plain method is called on the loop's thread, because a client belongs to
  its loop.
- `async for` becomes `for`, `async with` becomes `with`. A method that returns an awaitable (a Delivery) returns
  an object with `result()`.
- The constructor connects, and raises the exceptions of `async with`. `with` closes; so do `close` and the
  end of the program.
- Each object has a thread with an event loop of its own, so it works beside a running loop (notebooks) and
  from any thread.
- Callbacks are called on that thread: they may call plain methods, and must not block.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Generic, TypeVar

from ottla.blocking.loop_thread import LoopThread

T = TypeVar("T")

# How long the end of a program, or of an object without references, waits for unfinished work.
FORGOTTEN_CLOSE_S = 5.0


# Phrases of the asyncio classes' docstrings, and those of the blocking classes.
_WORDS = {
    "in `async with`, which": "when it is made, which",
    "async with": "with",
    "async for": "for",
    "await producer": "producer",
    "await consumer": "consumer",
    "await admin": "admin",
}


def without_async(text: str) -> str:
    """A docstring of an asyncio class, in the terms of the blocking class."""
    for word, other in _WORDS.items():
        text = text.replace(word, other)
    return text


def blocking_class(wrapped: type[Any]) -> type[Any]:
    """The class that waits, with the name of the one it is made from."""
    members: dict[str, Any] = {
        "__doc__": without_async(wrapped.__doc__ or ""),
        "__module__": "ottla.blocking",
    }
    members |= {"__init__": _constructor(wrapped), "__enter__": _enter, "__exit__": _exit}
    if hasattr(wrapped, "__aiter__"):
        members["__iter__"] = _iterate
    for name, member in vars(wrapped).items():
        if not name.startswith("_"):
            members[name] = _blocking_member(name, member)
    members["close"] = _closing(wrapped.close)
    return type(wrapped.__name__, (), members)


class Waited(Generic[T]):
    """A value that will be known later; `result` waits for it."""

    def __init__(self, thread: LoopThread, awaited: Awaitable[T]) -> None:
        self._thread = thread
        self._awaited = awaited

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result, or raise its exception; TimeoutError after `timeout_s`. May be called
        again.
        """
        return self._thread.run(partial(_awaited, self._awaited), timeout_s)

    def done(self) -> bool:
        """Whether `result` would answer at once."""
        return bool(self._thread.call(self._awaited.done))  # type: ignore[attr-defined]


class Iteration(Generic[T]):
    """Iterates with `for` over an asynchronous iterator."""

    def __init__(self, thread: LoopThread, items: AsyncIterator[T]) -> None:
        self._thread = thread
        self._items = items

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return self._thread.run(partial(_called, self._items.__anext__))
        except StopAsyncIteration:
            raise StopIteration from None


class Scope(Generic[T]):
    """Enters and leaves an asynchronous context manager with `with`."""

    def __init__(self, thread: LoopThread, scope: AbstractAsyncContextManager[T]) -> None:
        self._thread = thread
        self._scope = scope

    def __enter__(self) -> T:
        return self._thread.run(partial(_called, self._scope.__aenter__))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._thread.run(partial(_called, self._scope.__aexit__, kind, error, trace))


class _Bond:
    """A blocking object's thread and client, and how both end if the program does not close them."""

    __slots__ = ("client", "forget", "thread")

    def __init__(self, owner: object, wrapped: type[Any], args: Any, kwargs: Any) -> None:
        self.thread = LoopThread(f"ottla.blocking.{wrapped.__name__}")
        try:
            self.client = self.thread.run(partial(_opened, wrapped, args, kwargs))
        except BaseException:
            self.thread.end()
            raise
        self.forget = weakref.finalize(owner, self.thread.end, self.client.close, FORGOTTEN_CLOSE_S)

    def end(self, closing: Callable[[], Any]) -> None:
        """Close the client, then its thread; a second time does nothing."""
        if self.forget.detach() is None:
            return
        try:
            self.thread.run(closing)
        finally:
            # Once more, without arguments: they may have been refused. A closed client is not closed again.
            self.thread.end(self.client.close, FORGOTTEN_CLOSE_S)


def _constructor(wrapped: type[Any]) -> Callable[..., None]:
    @wraps(wrapped.__init__)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        self._bond = _Bond(self, wrapped, args, kwargs)

    return construct


def _enter(self: Any) -> Any:
    return self


def _exit(
    self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None:
    bond: _Bond = self._bond
    bond.end(lambda: bond.client.__aexit__(kind, error, trace))


def _iterate(self: Any) -> Iterator[Any]:
    bond: _Bond = self._bond
    return Iteration(bond.thread, bond.thread.call(bond.client.__aiter__))


def _closing(method: Callable[..., Any]) -> Callable[..., None]:
    @wraps(method)
    def close(self: Any, *args: Any, **kwargs: Any) -> None:
        bond: _Bond = self._bond
        bond.end(lambda: _called(method, bond.client, *args, **kwargs))

    return _plain(close)


def _blocking_member(name: str, member: Any) -> Any:
    if isinstance(member, property):
        return property(lambda self: _answer(self, getattr, name), doc=member.__doc__)
    if not inspect.isfunction(member):
        return member
    if not _is_awaited(member):

        @wraps(member)
        def at_once(self: Any, *args: Any, **kwargs: Any) -> Any:
            return _answer(self, member, *args, **kwargs)

        return at_once

    @wraps(member)
    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        bond: _Bond = self._bond
        return bond.thread.run(partial(_called, member, bond.client, *args, **kwargs))

    return _plain(waiting)


def _is_awaited(method: Any) -> bool:
    """Whether a function is a coroutine function, or is marked so that its awaitable is awaited at once."""
    said = str(method.__annotations__.get("return", ""))
    return inspect.iscoroutinefunction(method) or said.startswith("Awaitable[")


def _answer(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    bond: _Bond = self._bond
    answer = bond.thread.call(function, bond.client, *args, **kwargs)
    if isinstance(answer, AsyncIterator):
        return Iteration(bond.thread, answer)
    if isinstance(answer, AbstractAsyncContextManager):
        return Scope(bond.thread, answer)
    if inspect.isawaitable(answer):
        return Waited(bond.thread, answer)
    return answer


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide the wrapped function: `inspect` would report a coroutine function, which notebooks await."""
    signature = inspect.signature(function)
    del function.__wrapped__  # type: ignore[attr-defined]
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


async def _opened(wrapped: type[Any], args: Any, kwargs: Any) -> Any:
    return await wrapped(*args, **kwargs).__aenter__()


async def _called(function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    return await function(*args, **kwargs)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
