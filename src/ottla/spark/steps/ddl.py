"""The fields of a schema in DDL, without Spark: a pipeline's definitions may not ask it while they are read.

Types are not understood here, only set apart: `order_id STRING NOT NULL, lines ARRAY<STRUCT<sku: STRING, n:
INT>>` has two fields. Spark understands them when the query is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ottla.spark.steps.arguments import StepError

_FIELD: Final = re.compile(
    r"""(?P<name>`(?:[^`]|``)+`|\w+) \s* (?::|\s) \s* (?P<type>.+?)
        (?P<needed>\s+NOT\s+NULL)? (?:\s+COMMENT\s+(?:'[^']*'|"[^"]*"))?""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = "<(", ">)"


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its name, its type in DDL, and whether it must be there."""

    name: str
    type: str
    needed: bool


def parse_ddl(text: str) -> tuple[Field, ...]:
    """The fields that a schema in DDL names."""
    fields = tuple(_field(part, text) for part in _parts(text))
    names = [each.name.lower() for each in fields]
    for name in names:
        if names.count(name) > 1:
            raise StepError(f"schema names the field {name} twice.")
    return fields


def to_ddl(fields: tuple[Field, ...]) -> str:
    """A schema of which no field must be there."""
    return ", ".join(f"`{each.name.replace('`', '``')}` {each.type}" for each in fields)


def _parts(text: str) -> list[str]:
    """Between commas that are not inside a type, a name or a comment."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += character
    if depth or quote:
        raise _not_ddl(text)
    return parts


def _field(part: str, text: str) -> Field:
    found = _FIELD.fullmatch(part.strip())
    if found is None:
        raise _not_ddl(part if part.strip() else text)
    name = found["name"]
    bare = name[1:-1].replace("``", "`") if name.startswith("`") else name
    return Field(bare, " ".join(found["type"].split()), found["needed"] is not None)


def _not_ddl(text: str) -> StepError:
    return StepError(
        f"schema has {text.strip()!r}, but takes fields as in 'order_id STRING NOT NULL, amount DOUBLE'."
    )
