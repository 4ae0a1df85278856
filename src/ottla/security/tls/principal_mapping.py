"""Kafka's rules that turn the subject of a certificate into a principal's name (`ssl.principal.mapping.rules`).

The rules stand in a list with commas between; the first that fits is taken. `DEFAULT` takes the subject as it
is. `RULE:pattern/replacement/` fits if the pattern matches the whole subject; `$1` in the replacement is what
the first group matched. `/L` or `/U` at the end makes the name lower case or upper case:

    RULE:^CN=(.*?),OU=Brokers.*$/$1/,RULE:^CN=(.*?),.*$/$1/L,DEFAULT
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_RULE: Final = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_SEPARATOR: Final = re.compile(r"\s*(?:[,\n]|$)\s*")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)


class MappingError(ValueError):
    """Rules that cannot be used; the message is a phrase that names the rule."""


class NoRuleAppliesError(ValueError):
    """No rule fits a subject: its certificate is nobody's here."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def applied(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(lambda match: _replaced(self.replacement, match), subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class PrincipalMapping:
    """The rules of one listener."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str) -> None:
        """Raises MappingError."""
        self._text = text
        self._rules: Sequence[_Rule] = _parsed(text)

    def name_of(self, subject: str) -> str:
        """The principal's name for a subject. Raises NoRuleAppliesError."""
        for rule in self._rules:
            name = rule.applied(subject)
            if name is not None:
                return name
        raise NoRuleAppliesError(f"no rule of ssl.principal.mapping.rules applies to {subject!r}")


def _parsed(text: str) -> list[_Rule]:
    rules, position = [], 0
    text = text.strip()
    while position < len(text):
        found = _RULE.match(text, position)
        end = _SEPARATOR.match(text, found.end() if found else position)
        if end is None:
            raise MappingError(
                f"{text[position:][:100]!r} is not a rule: rules are DEFAULT and RULE:pattern/replacement/[LU]"
            )
        if found is not None:
            rules.append(_rule(found))
        position = max(end.end(), position + 1)
    return rules or [_Rule()]


def _rule(found: re.Match[str]) -> _Rule:
    if found[1]:
        return _Rule()
    try:
        pattern = re.compile(found[2])
    except re.error as error:
        raise MappingError(f"{found[0]!r} has no valid pattern: {error}") from error
    return _Rule(pattern, found[3], found[4])


def _replaced(replacement: str, match: re.Match[str]) -> str:
    """A replacement in Java's form with its references filled in."""

    def value(reference: re.Match[str]) -> str:
        literal, number, name = reference[1], reference[2], reference[3]
        if literal is not None:
            return literal
        if name is not None:
            return match[name] or "" if name in match.re.groupindex else reference[0]
        return _group(number, match)

    return _REFERENCE.sub(value, replacement)


def _group(digits: str, match: re.Match[str]) -> str:
    """The group of the longest number for which there is one; the digits behind it are text, as in Java."""
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= match.re.groups:
            return (match[int(digits[:size])] or "") + digits[size:]
    return f"${digits}"  # as in Kafka: a reference to no group is text
