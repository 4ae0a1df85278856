"""Conditions on records, as people write them: `key=42`, `value~error`, `value.user.name=Ada`,
`header.trace!=1`.

A condition is a field, an operator and a text. Fields: key, value, a field inside a JSON value (`value.a.b`),
a header (`header.name`), topic, partition, offset. Operators: `=` and `!=` compare with the whole text, `~`
and `!~` search for a regular expression. A field that a record does not have equals nothing and matches
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from ottla.client.fetching.plan.record_batch import ConsumerRecord

Condition: TypeAlias = Callable[[ConsumerRecord], bool]

_CONDITION: Final = re.compile(r"(?P<field>[^=!~]+?)\s*(?P<operator>!=|!~|=|~)(?P<text>.*)", re.DOTALL)
_EXAMPLES: Final = "for example key=42, value~error, value.user.name=Ada, header.trace!=1"


def parse_condition(text: str) -> Condition:
    """The condition in a text. Raises ValueError with a sentence."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is no condition: write a field, = != ~ or !~, and a text, {_EXAMPLES}')
    field, operator, wanted = _field(found["field"].strip(), text), found["operator"], found["text"]
    if operator in ("=", "!="):
        return _compared(field, wanted, is_wanted=operator == "=")
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise ValueError(f'"{wanted}" in "{text}" is no regular expression: {error}') from None
    return _searched(field, pattern, is_wanted=operator == "~")


def all_of(conditions: Iterable[Condition]) -> Condition:
    """The condition that all of these conditions hold."""
    every = tuple(conditions)
    return lambda record: all(condition(record) for condition in every)


def _compared(field: Callable[[ConsumerRecord], str | None], wanted: str, *, is_wanted: bool) -> Condition:
    return lambda record: (field(record) == wanted) is is_wanted


def _searched(
    field: Callable[[ConsumerRecord], str | None], pattern: re.Pattern[str], *, is_wanted: bool
) -> Condition:
    def holds(record: ConsumerRecord) -> bool:
        text = field(record)
        return (text is not None and pattern.search(text) is not None) is is_wanted

    return holds


def _field(name: str, condition: str) -> Callable[[ConsumerRecord], str | None]:
    first, dot, rest = name.partition(".")
    if first == "value" and dot:
        path = rest.split(".")
        return lambda record: _inside(record.value, path)
    if first == "header" and rest:
        return lambda record: next((_text(value) for key, value in record.headers if key == rest), None)
    if name in ("key", "value"):
        return lambda record: _text(getattr(record, name))
    if name in ("topic", "partition", "offset"):
        return lambda record: str(getattr(record, name))
    raise ValueError(
        f'there is no field "{name}" in "{condition}": take key, value, header.NAME, {_EXAMPLES}'
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _inside(value: bytes | None, path: list[str]) -> str | None:
    """A field of a JSON document as text; None if it is not there."""
    try:
        found: Any = json.loads(value or b"null")
    except ValueError:
        return None
    for name in path:
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    if found is None or isinstance(found, str):
        return found
    return json.dumps(found, ensure_ascii=False)
