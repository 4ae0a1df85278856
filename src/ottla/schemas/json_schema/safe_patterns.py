"""Which regular expressions of a JSON Schema cannot take long.

A schema is written by strangers, and Python's `re` backtracks: `(a+)+$` over forty characters stops a program. So a
gateway, whose callers share one event loop, refuses to write by a schema whose patterns could do that, and a reader
does not run those of a writer's schema.

A pattern is safe if it has no groups and no alternatives, one repetition of a varying length at most, and, if that
repetition is without an end, an anchor in front: then every character is looked at a few times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_MOST_REPEATED: Final = 1_000
_MOST_CHARACTERS: Final = 500
_PLAIN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPETITION: Final = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")


def unsafe_pattern(texts: Iterable[str]) -> str | None:
    """A pattern of these schemas that could take long; None if there is none."""
    for text in texts:
        for pattern in _patterns(json.loads(text)):
            if not is_safe(pattern):
                return pattern
    return None


def is_safe(pattern: str) -> bool:
    """Whether a search for a pattern takes a time that grows with the text, and no faster."""
    plain = _PLAIN.sub("x", pattern)
    if len(pattern) > _MOST_CHARACTERS or any(each in plain for each in "(|"):
        return False
    varying = 0
    is_endless = False
    for found in _REPETITION.finditer(plain):
        least, comma, most = found.groups(default="")
        if int(least or 0) > _MOST_REPEATED or int(most or 0) > _MOST_REPEATED:
            return False
        if found[0] in ("*", "+") or (comma and not most):
            is_endless = True
        varying += not (found[0].startswith("{") and not comma)
    return varying <= 1 and (not is_endless or plain.startswith("^"))


def _patterns(value: Any) -> Iterator[str]:
    """Every text that some keyword may take for a pattern; a property called `pattern` counts, too."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
            if isinstance(each.get("pattern"), str):
                yield each["pattern"]
            named = each.get("patternProperties")
            if isinstance(named, dict):
                yield from named
