"""What became of requests that had an `Idempotency-Key`: a request that comes again writes nothing twice.

| the same key | answer |
|---|---|
| with another body | refused: a key names one request |
| while the first request is under way | the outcome of the first one, when it is known |
| afterwards | the same outcomes; records that certainly were not written are written now |

A record whose outcome is not known (an answer of the cluster was lost) stays so: sending it again could write it
twice. The memory is that of one gateway, has a limit, and ends with the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ottla.gateway.http.machine.http_error import HttpError, unprocessable

T = TypeVar("T")
MOST_CHARACTERS: Final = 255
CONFLICT: Final = 42206


@dataclass(slots=True)
class Remembered(Generic[T]):
    """One request. `outcomes` is empty until it was carried out for the first time.

    `turn` is what the shell has requests with the same key wait for, one after the other.
    """

    digest: bytes
    until_ms: float
    turn: Any
    users: int = 0
    outcomes: list[T] = field(default_factory=list)

    def keep(self, outcomes: list[T]) -> None:
        self.outcomes = outcomes


class IdempotentRequests(Generic[T]):
    """Requests by whose they are and their key; the oldest are forgotten first."""

    def __init__(self, most: int, keep_ms: float, new_turn: Callable[[], Any]) -> None:
        self._most = most
        self._new_turn = new_turn
        self._keep_ms = keep_ms
        self._requests: dict[tuple[Hashable, str], Remembered[T]] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def begin(self, whose: Hashable, key: str, digest: bytes, now_ms: float) -> Remembered[T]:
        """A request uses its key until `end`. Raises HttpError(422 or 503)."""
        check_key(key)
        self._forget(now_ms)
        found = self._requests.get((whose, key))
        if found is not None and found.digest != digest:
            raise unprocessable(
                "this Idempotency-Key was used for another request: a new request needs a key of its own",
                CONFLICT,
            )
        if found is None:
            self._make_room()
            found = self._requests[whose, key] = Remembered(digest, now_ms + self._keep_ms, self._new_turn())
        found.users += 1
        return found

    def end(self, whose: Hashable, key: str) -> None:
        """The request is answered; one that was not carried out is forgotten."""
        found = self._requests[whose, key]
        found.users -= 1
        if not found.outcomes and not found.users:
            del self._requests[whose, key]

    def _forget(self, now_ms: float) -> None:
        """In the order of their ends, which is that of their beginnings."""
        for name, each in list(self._requests.items()):
            if each.until_ms > now_ms:
                return
            if not each.users:
                del self._requests[name]

    def _make_room(self) -> None:
        if len(self._requests) < self._most:
            return
        for name, each in self._requests.items():
            if not each.users:
                del self._requests[name]
                return
        raise HttpError(
            503,
            f"{self._most} requests with an Idempotency-Key are under way (ottla.gateway.max.idempotency.keys)",
            headers={"Retry-After": "1"},
        )


def check_key(key: str) -> None:
    """Raises HttpError(400)."""
    if not 0 < len(key) <= MOST_CHARACTERS or not key.isascii() or not key.isprintable():
        raise HttpError(400, f"Idempotency-Key must have 1 to {MOST_CHARACTERS} printable ASCII characters")
