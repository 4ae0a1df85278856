"""An answer that comes later, without a task that waits for it.

A handler that waits for followers, or for records to send them, would need a task, a few futures and a timer
for each request: more than the request itself costs. The handler returns a `Deferred` instead, and settles it
from the callback that brings the outcome.

Rules
- A Deferred is settled at most once. If it is settled before the connection waits, the answer leaves in the
  next turn.
- `settle` lets the connection go on at once, so it is for callbacks of the loop. `settle_soon` is for callers
  in the middle of something: the connection goes on in the next turn, together with whatever else is settled
  meanwhile.
- The handler hears when the connection is gone (`on_abandoned`), in a turn of its own. Settling does
  nothing then.
- A caller that has a task may await a Deferred.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from ottla.server.answers.send_queue import Part

# The bytes to send, or the reason why the connection has to be closed.
Outcome = list[Part] | Exception
Settled = Callable[[Outcome, bool], None]


class Deferred:
    """The parts of one answer, to come."""

    __slots__ = ("_early", "_on_settled", "on_abandoned")

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        self.on_abandoned = on_abandoned
        self._on_settled: Settled | None = None
        self._early: Outcome | None = None

    def then(self, on_settled: Settled) -> None:
        """Have `on_settled(outcome, at_once)` called."""
        if self._early is None:
            self._on_settled = on_settled
        else:
            on_settled(self._early, False)

    def settle(self, outcome: Outcome) -> None:
        """This is the answer, and it may leave now."""
        self._settle(outcome, True)

    def settle_soon(self, outcome: Outcome) -> None:
        """This is the answer, and it may leave in the next turn."""
        self._settle(outcome, False)

    def abandon(self) -> None:
        """Nobody waits any more."""
        self._on_settled = None
        self.on_abandoned()

    def __await__(self) -> Generator[Any, None, list[Part]]:
        return self._awaited().__await__()

    async def _awaited(self) -> list[Part]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def wake(outcome: Outcome, _: bool) -> None:
            if not future.done():
                future.set_result(outcome)

        self.then(wake)
        try:
            outcome = await future
        except asyncio.CancelledError:
            self.abandon()
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _settle(self, outcome: Outcome, at_once: bool) -> None:
        on_settled, self._on_settled = self._on_settled, None
        if on_settled is None:
            self._early = outcome
        else:
            on_settled(outcome, at_once)
