"""A client is opened once, by one event loop, and is used between opening and closing.

A client that is used in another way (before it is open, after it was closed, by another event loop or thread,
in a forked process) would wait for answers that cannot come. Every public call asks `needs_open` first, which
raises RuntimeError with the reason. A forked process has to run an event loop of its own, so that the check
of the loop covers it.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto


class _Stage(Enum):
    NEW = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


class Lifetime:
    """The stages of one client; `noun` names it in messages."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._stage = _Stage.NEW
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client takes work."""
        return self._stage is _Stage.OPEN

    def needs_new(self) -> None:
        """Raise RuntimeError unless the client was never opened."""
        if self._stage is _Stage.OPEN:
            raise RuntimeError(f"the {self._noun} is open already: one `async with` is enough")
        if self._stage is not _Stage.NEW:
            raise RuntimeError(f"the {self._noun} was closed, and cannot be opened again: make another one")

    def begin(self) -> asyncio.AbstractEventLoop:
        """The client is open, and belongs to the running event loop."""
        self.needs_new()
        self._stage, self._loop = _Stage.OPEN, asyncio.get_running_loop()
        return self._loop

    def needs_open(self) -> None:
        """Raise RuntimeError unless the client is open and belongs to the running event loop."""
        self.needs_connections()
        if self._stage is _Stage.CLOSING:
            raise RuntimeError(f"the {self._noun} is being closed")

    def needs_connections(self) -> None:
        """Like `needs_open`, but a client that is being closed will do: its last callbacks may ask it."""
        if self._stage is _Stage.NEW:
            raise RuntimeError(f"the {self._noun} is not open: use it in `async with`")
        if self._stage is _Stage.CLOSED:
            raise RuntimeError(f"the {self._noun} is not open any more: use it inside of its `async with`")
        self.needs_own_loop()

    def needs_own_loop(self) -> None:
        """Raise RuntimeError if the client is open in another event loop than the running one."""
        if self._stage in (_Stage.OPEN, _Stage.CLOSING) and _running_loop() is not self._loop:
            raise RuntimeError(
                f"the {self._noun} belongs to the event loop that opened it: another loop, another thread "
                "or a forked process needs one of its own (ottla.blocking works from any thread)"
            )

    def begin_end(self) -> None:
        """The client is being closed: it takes no more work."""
        self._stage = _Stage.CLOSING

    def end(self) -> None:
        """The client is closed for good."""
        self._stage = _Stage.CLOSED


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
