"""Filters of a query: comparisons that all have to hold, and what they say about partitions, offsets and times.

A text such as `offset >= 100 AND amount > 2.5 AND country IN ('SI', 'AT')` becomes comparisons. Whatever is
more than that (OR, functions) is for SQL: `ottla sql`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null")
_LAST: Final = 2**63 - 1

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<operator><=|>=|!=|<>|=|<|>)
      | (?P<mark>[(),])
      | "(?P<quoted>[^"]+)"
      | (?P<word>[A-Za-z_][\w.]*)
    )""",
    re.VERBOSE,
)


class ConditionError(ValueError):
    """A filter that cannot be read; the message says where."""


class Comparison(NamedTuple):
    """One comparison of a column with a value; `value` is a list for "in"."""

    column: str
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a query can want of a topic: partitions (None: all), offsets and times, from the first to before the last."""

    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _LAST
    ends: Mapping[int, int] = field(default_factory=dict)  # of single partitions, for time travel
    since_ms: int = -_LAST
    until_ms: int = _LAST

    def wants_partition(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions

    def offsets_of(self, partition: int) -> tuple[int, int]:
        """The first offset, and the one after the last."""
        return self.first_offset, min(self.end_offset, self.ends.get(partition, _LAST))


def comparisons(where: str | Sequence[tuple[Any, ...]] | None) -> list[Comparison]:
    """A filter as text, or as tuples (column, operator, value); ConditionError if it is neither."""
    if where is None:
        return []
    if isinstance(where, str):
        return _Parser(where).parsed()
    return [_checked(tuple(each)) for each in where]


def bounds_of(wanted: Iterable[Comparison]) -> Bounds:
    """What comparisons say about the columns partition, offset and timestamp. What they do not say is not bounded."""
    partitions: frozenset[int] | None = None
    first, end, since, until = 0, _LAST, -_LAST, _LAST
    for column, operator, value in wanted:
        if column == "partition" and operator in ("=", "in"):
            named = frozenset(value if operator == "in" else [value])
            partitions = named if partitions is None else partitions & named
        elif column == "offset" and isinstance(value, int):
            low, high = _interval(operator, value)
            first, end = max(first, low), min(end, high)
        elif column == "timestamp" and isinstance(value, datetime):
            low, high = _interval(operator, _milliseconds(value), is_coarse=True)
            since, until = max(since, low), min(until, high)
    return Bounds(partitions, first, end, {}, since, until)


def _interval(operator: str, value: int, *, is_coarse: bool = False) -> tuple[int, int]:
    """[low, high) of whole numbers. Coarse values were rounded down: a bound keeps its own millisecond."""
    match operator:
        case "=":
            return value, value + 1
        case "<":
            return -_LAST, value + int(is_coarse)
        case "<=":
            return -_LAST, value + 1
        case ">":
            return value + int(not is_coarse), _LAST
        case ">=":
            return value, _LAST
    return -_LAST, _LAST


def _milliseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000 // 1)


def _checked(given: tuple[Any, ...]) -> Comparison:
    if not 2 <= len(given) <= 3 or not isinstance(given[0], str):
        raise ConditionError(f"a filter is (column, operator, value), not {given!r}")
    column, operator = given[0], str(given[1]).lower()
    operator = {"==": "=", "<>": "!="}.get(operator, operator)
    if operator not in OPERATORS:
        raise ConditionError(f"'{given[1]}' is none of the operators {', '.join(OPERATORS)}")
    value = given[2] if len(given) == 3 else None
    if operator in ("in", "not in"):
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ConditionError(f"'{operator}' needs a list of values, not {value!r}")
        value = list(value)
    return Comparison(column, operator, value)


class _Parser:
    """Reads comparisons that AND joins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0

    def parsed(self) -> list[Comparison]:
        found = [self._comparison()]
        while self._at < len(self._tokens):
            self._expect("and")
            found.append(self._comparison())
        return found

    def _split(self, text: str) -> Iterable[tuple[str, str]]:
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise ConditionError(f"the filter cannot be read at {text[at : at + 20].strip()!r}")
            yield match.lastgroup, match[match.lastgroup]
            at = match.end()

    def _comparison(self) -> Comparison:
        kind, column = self._next("the name of a column")
        if kind not in ("word", "quoted"):
            raise ConditionError(f"a comparison begins with the name of a column, not with {column}")
        kind, operator = self._next("an operator")
        operator = operator.lower()
        if operator == "is":
            is_negated = self._accepts("not")
            self._expect("null")
            return Comparison(column, "is not null" if is_negated else "is null")
        if operator == "not":
            self._expect("in")
            return Comparison(column, "not in", self._list())
        if operator == "in":
            return Comparison(column, "in", self._list())
        if kind != "operator":
            raise ConditionError(f"'{operator}' after {column} is no operator; use SQL for more: ottla sql")
        return _checked((column, operator, self._moment(column, self._value())))

    def _list(self) -> list[Any]:
        self._expect("(")
        values = [self._value()]
        while self._accepts(","):
            values.append(self._value())
        self._expect(")")
        return values

    def _value(self) -> Any:
        kind, text = self._next("a value")
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return float(text) if any(mark in text for mark in ".eE") else int(text)
        if kind == "word" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "word" and text.lower() == "timestamp":
            return self._value()
        raise ConditionError(f"{text} is no value: give a number, true, false, or a text in single quotes")

    def _moment(self, column: str, value: Any) -> Any:
        if column != "timestamp" or not isinstance(value, str):
            return value
        return moment(value)

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ConditionError(f"the filter '{self._text}' ends where {wanted} should come")
        self._at += 1
        return self._tokens[self._at - 1]

    def _accepts(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1].lower() == word:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accepts(word):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise ConditionError(f"expected '{word.upper()}' and found {found}; use SQL for more: ottla sql")


def moment(text: str) -> datetime:
    """A time as ISO 8601 writes it; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConditionError(f"'{text}' is no time such as 2026-11-18T08:30:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
