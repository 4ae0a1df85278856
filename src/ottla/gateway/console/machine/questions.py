"""The bodies of requests, checked: what is missing or of the wrong kind is refused with a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.gateway.http.machine.http_error import unprocessable
from ottla.gateway.http.machine.json_bodies import kind_of

_MOST_INT64: Final = 2**63 - 1


class Body:
    """The JSON object of a request."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """A text; it must be there unless there is a default. Raises HttpError(422)."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or (default is None and not value):
            raise _refused(name, value, "a text")
        return value

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """One of some texts."""
        value, allowed = self._values.get(name), list(choices)
        if value not in allowed:
            raise _refused(name, value, f"one of {', '.join(allowed)}")
        return str(value)

    def number(self, name: str, least: int = 0, most: int = _MOST_INT64) -> int:
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _refused(name, value, f"a whole number from {least} on")
        return value

    def optional_number(self, name: str, least: int = 0, most: int = _MOST_INT64) -> int | None:
        return None if self._values.get(name) is None else self.number(name, least, most)

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise _refused(name, value, "true or false")
        return value

    def texts(self, name: str) -> list[str]:
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise _refused(name, value, "a list of texts")
        return value

    def settings(self, name: str) -> dict[str, str | None]:
        """Settings by name; null takes one away."""
        value = self._values.get(name, {})
        if not isinstance(value, dict) or not all(
            key and (item is None or isinstance(item, str)) for key, item in value.items()
        ):
            raise _refused(name, value, "an object of texts")
        return value

    def items(self, name: str, most: int) -> list[Body]:
        """A list of objects."""
        value = self._values.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
            raise _refused(name, value, "a list of objects")
        if len(value) > most:
            raise unprocessable(f'"{name}" has {len(value)} entries, and {most} are the most at once')
        return [Body(each) for each in value]

    def get(self, name: str) -> Any:
        return self._values.get(name)


def _refused(name: str, value: object, wanted: str) -> Exception:
    given = "missing" if value is None else f"{kind_of(value)}: {str(value)[:50]!r}"
    return unprocessable(f'"{name}" must be {wanted}; it is {given}')
