"""The loop's time that requests take, for quotas of request time (`quotas.py`). Nothing here runs without such a quota.

A request that has to wait is a coroutine that the loop resumes several times: each of its steps is work, and the
time between them is not.
"""

from collections.abc import Awaitable, Generator
from dataclasses import replace
from typing import Any, TypeVar

from ottla.server.gate.quotas import Quotas
from ottla.server.gate.session import Session

T = TypeVar("T")


class Timed(Awaitable[T]):
    """An awaitable, each step of which is accounted for."""

    def __init__(self, awaitable: Awaitable[T], quotas: Quotas, session: Session) -> None:
        self._steps = awaitable.__await__()
        self._quotas = quotas
        self._session = session

    def __await__(self) -> Generator[Any, Any, T]:
        outcome: Any = None
        error: BaseException | None = None
        while True:
            self._quotas.begin_work()
            try:
                waits_for = self._steps.send(outcome) if error is None else self._steps.throw(error)
            except StopIteration as end:
                # The answer is not written yet: whoever writes it accounts for this step, too.
                result: T = end.value
                return result
            self._quotas.end_work(self._session)
            outcome = error = None
            try:
                outcome = yield waits_for
            except BaseException as raised:
                error = raised


def throttled(answer: Any, throttle_ms: int) -> Any:
    """An answer that says for how long its client is throttled, if answers of its kind say so."""
    told_ms = getattr(answer, "throttle_time_ms", None)
    if told_ms is None or told_ms >= throttle_ms:
        return answer
    return replace(answer, throttle_time_ms=throttle_ms)
