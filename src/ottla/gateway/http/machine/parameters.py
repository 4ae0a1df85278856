"""What a route reads from its query: declared once, checked, and described by OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from ottla.gateway.http.machine.http_error import HttpError

# More are a mistake, or an attempt to keep the gateway busy.
_MOST_FIELDS = 50


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query."""

    name: str
    doc: str
    type: Literal["integer", "string", "boolean"] = "string"
    default: Any = None
    at_least: int | None = None
    at_most: int | None = None
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """The value of a text. Raises HttpError(400)."""
        if self.type == "integer":
            return self._integer(text)
        if self.type == "boolean":
            if text.lower() not in ("true", "false", ""):
                raise self._refusal(text, "true or false")
            return text.lower() != "false"
        if self.choices and text not in self.choices:
            raise self._refusal(text, f"one of {', '.join(self.choices)}")
        return text

    def _integer(self, text: str) -> int:
        is_number = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20
        value = int(text) if is_number else 0
        too_small = self.at_least is not None and value < self.at_least
        too_large = self.at_most is not None and value > self.at_most
        if not is_number or too_small or too_large:
            low = "" if self.at_least is None else f", at least {self.at_least}"
            high = "" if self.at_most is None else f", at most {self.at_most}"
            raise self._refusal(text, f"a whole number{low}{high}")
        return value

    def _refusal(self, text: str, allowed: str) -> HttpError:
        return HttpError(400, f"the parameter {self.name} cannot be {text[:100]!r}: it must be {allowed}")


def parse_query(text: str, declared: Sequence[Parameter]) -> dict[str, Any]:
    """The values of all declared parameters; what is not declared is refused. Raises HttpError(400)."""
    values = {each.name: each.default for each in declared}
    known = {each.name: each for each in declared}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise HttpError(400, f"the query of the address cannot be read: {error}") from error
    for name, value in pairs:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise HttpError(400, f"there is no parameter {name[:100]!r} here: {listed} can be given")
        values[name] = known[name].parse(value)
    return values
