"""Which transactions there are, whose they are, which are idle, and how those ended that are over.

A transaction belongs to the login that began it; to every other caller it does not exist. One that has ended is
remembered for a while: a caller whose answer was lost asks again how it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError

T = TypeVar("T")

NOT_FOUND: Final = 40404
IS_OVER: Final = 40905
TOO_MANY: Final = 42902


class TransactionState(StrEnum):
    """What is known of a transaction. After an uncertain end it is committed as a whole, or not at all."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNCERTAIN = "uncertain"


@dataclass(slots=True)
class Place(Generic[T]):
    """A transaction's place in the table."""

    login: Login | None
    transaction: T | None  # None while it is being opened, and when it is over
    used_ms: float
    state: TransactionState = TransactionState.OPEN
    reason: str = ""
    users: int = 0

    def fill(self, transaction: T, now_ms: float) -> None:
        self.transaction, self.used_ms = transaction, now_ms

    def begin(self) -> None:
        self.users += 1

    def end(self, now_ms: float) -> None:
        self.users -= 1
        self.used_ms = now_ms

    def close(self, state: TransactionState, reason: str, now_ms: float) -> None:
        """The transaction is over."""
        self.state, self.reason, self.used_ms, self.transaction = state, reason, now_ms, None

    def needed(self) -> T:
        """The transaction itself. Raises HttpError(409) if it is over."""
        if self.transaction is None or self.state is not TransactionState.OPEN:
            words = f": {self.reason}" if self.reason else ""
            raise HttpError(409, f"the transaction is {self.state}{words}", error_code=IS_OVER)
        return self.transaction


class TransactionTable(Generic[T]):
    """Transactions by their ids: at most `most` that are open, and as many that are over."""

    def __init__(self, most: int, idle_ms: float) -> None:
        self._most = most
        self._idle_ms = idle_ms
        self._places: dict[str, Place[T]] = {}

    @property
    def open_count(self) -> int:
        return sum(each.state is TransactionState.OPEN for each in self._places.values())

    def reserve(self, transaction: str, login: Login | None, now_ms: float) -> Place[T]:
        """Take a place for a transaction that is being opened. Raises HttpError(429)."""
        if self.open_count >= self._most:
            raise HttpError(
                429,
                f"{self._most} transactions are open at this gateway, which is all that it allows"
                " (ottla.gateway.max.transactions): end one, or wait until an idle one is aborted",
                error_code=TOO_MANY,
            )
        over = [key for key, each in self._places.items() if each.state is not TransactionState.OPEN]
        for key in over[: max(len(over) + 1 - self._most, 0)]:
            del self._places[key]
        place = self._places[transaction] = Place(login, None, now_ms)
        return place

    def forget(self, transaction: str) -> None:
        """The transaction could not be opened."""
        del self._places[transaction]

    def find(self, transaction: str, login: Login | None) -> Place[T]:
        """Raises HttpError(404)."""
        place = self._places.get(transaction)
        if place is None or place.login != login:
            raise HttpError(
                404,
                f"this gateway has no transaction {transaction[:100]!r}: it was idle for too long, or belongs to another "
                "gateway or login",
                error_code=NOT_FOUND,
            )
        return place

    def idle(self, now_ms: float) -> list[Place[T]]:
        """The open transactions that no request has used for long. Those that are long over are forgotten."""
        old = [key for key, each in self._places.items() if now_ms - each.used_ms >= self._idle_ms]
        found = []
        for key in old:
            place = self._places[key]
            if place.state is not TransactionState.OPEN:
                del self._places[key]
            elif place.transaction is not None and not place.users:
                found.append(place)
        return found

    def all_open(self) -> list[Place[T]]:
        """Every transaction that is open."""
        return [each for each in self._places.values() if each.transaction is not None]
