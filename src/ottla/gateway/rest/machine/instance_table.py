"""Which consumer instances there are, whose they are, and which are idle.

An instance belongs to the login that made it. To every other caller it does not exist: an instance acts with the
rights of its maker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError

T = TypeVar("T")

NOT_FOUND: Final = 40403
EXISTS: Final = 40902
TOO_MANY: Final = 42901


@dataclass(slots=True)
class _Place(Generic[T]):
    login: Login | None
    instance: T | None  # None while it is being opened
    used_ms: float
    users: int = 0

    def fill(self, instance: T, now_ms: float) -> None:
        self.instance, self.used_ms = instance, now_ms

    def begin(self) -> None:
        self.users += 1

    def end(self, now_ms: float) -> None:
        self.users -= 1
        self.used_ms = now_ms


class InstanceTable(Generic[T]):
    """Instances by group and name."""

    def __init__(self, most: int, idle_ms: float) -> None:
        self._most = most
        self._idle_ms = idle_ms
        self._places: dict[tuple[str, str], _Place[T]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def reserve(self, group: str, name: str, login: Login | None, now_ms: float) -> None:
        """Take a place for an instance that is being opened. Raises HttpError(409 or 429)."""
        if (group, name) in self._places:
            raise HttpError(409, f"the group {group!r} has an instance {name!r} already", error_code=EXISTS)
        if len(self._places) >= self._most:
            raise HttpError(
                429,
                f"this gateway has {self._most} consumer instances, which is all that it allows"
                " (ottla.gateway.max.instances): delete one, or wait until an idle one ends",
                error_code=TOO_MANY,
            )
        self._places[group, name] = _Place(login, None, now_ms)

    def fill(self, group: str, name: str, instance: T, now_ms: float) -> None:
        """The instance is open."""
        self._places[group, name].fill(instance, now_ms)

    def begin(self, group: str, name: str, login: Login | None) -> T:
        """A request uses an instance until `end`. Raises HttpError(404)."""
        place = self._of(group, name, login)
        place.begin()
        assert place.instance is not None
        return place.instance

    def end(self, group: str, name: str, now_ms: float) -> None:
        place = self._places.get((group, name))
        if place is not None:
            place.end(now_ms)

    def remove(self, group: str, name: str, login: Login | None) -> T:
        """Raises HttpError(404)."""
        place = self._of(group, name, login)
        del self._places[group, name]
        assert place.instance is not None
        return place.instance

    def forget(self, group: str, name: str) -> None:
        """The instance could not be opened."""
        del self._places[group, name]

    def remove_idle(self, now_ms: float) -> list[T]:
        """The instances that no request has used for long; they are in the table no more."""
        gone = [
            key
            for key, place in self._places.items()
            if place.instance is not None and not place.users and now_ms - place.used_ms >= self._idle_ms
        ]
        return [instance for key in gone if (instance := self._places.pop(key).instance) is not None]

    def remove_all(self) -> list[T]:
        """Every instance that is open; the table is empty afterwards."""
        places, self._places = self._places, {}
        return [place.instance for place in places.values() if place.instance is not None]

    def _of(self, group: str, name: str, login: Login | None) -> _Place[T]:
        place = self._places.get((group, name))
        if place is None or place.instance is None or place.login != login:
            raise HttpError(
                404,
                f"this gateway has no consumer instance {name[:100]!r} of the group {group[:100]!r}: it was deleted,"
                " it ended because nobody used it, or it belongs to another gateway or login",
                error_code=NOT_FOUND,
            )
        return place
