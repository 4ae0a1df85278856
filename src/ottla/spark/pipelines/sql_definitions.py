"""Definitions in SQL, as far as a pipeline has to know them: kind, name, line, and the text of the query.

Spark parses SQL by itself and reports nothing of it. The statements are found by their words: comments, texts in
quotes and parentheses are passed over, so that an AS or a semicolon in them is not taken for one of the statement's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<name>(?:`[^`]*`|\w+)(?:\.(?:`[^`]*`|\w+))*)
      | (?P<sign>[^\s])""",
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = (
    (("STREAMING", "TABLE"), "table"),
    (("MATERIALIZED", "VIEW"), "materialized view"),
    (("TEMPORARY", "VIEW"), "temporary view"),
    (("FLOW",), "flow"),
)


@dataclass(frozen=True, slots=True)
class SqlDefinition:
    """One CREATE statement. `query` is None for a table that flows fill, and for a flow that is not a query."""

    kind: str  # table, materialized view, temporary view, flow
    name: str
    target: str
    start: int  # where its text begins and where its query does
    query_start: int
    query: str | None
    is_plain: bool  # the name has one part, and nothing stands between it and the query but a comment


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int
    depth: int

    def says(self, *words: str) -> bool:
        return self.kind == "name" and self.text.upper() in words


def parse_sql(text: str) -> list[SqlDefinition]:
    """The definitions in a file, in their order."""
    return [found for tokens in _statements(text) if (found := _definition(text, tokens)) is not None]


def other_statements(text: str) -> list[int]:
    """The lines of statements that define nothing, such as SET."""
    return [
        text.count("\n", 0, tokens[0].start) + 1
        for tokens in _statements(text)
        if tokens and _definition(text, tokens) is None
    ]


def with_plain_views_temporary(text: str) -> str:
    """The same definitions, with temporary views in the place of plain materialized views."""
    parts, at = [], 0
    for each in parse_sql(text):
        if each.kind == "materialized view" and each.is_plain:
            lines = "\n" * text.count("\n", each.start, each.query_start)
            parts += [text[at : each.start], f"CREATE TEMPORARY VIEW {each.name} AS{lines} "]
            at = each.query_start
    return "".join([*parts, text[at:]])


def _statements(text: str) -> Iterator[list[_Token]]:
    """The tokens of each statement, without comments and without its semicolon."""
    tokens: list[_Token] = []
    depth = 0
    for found in _TOKEN.finditer(text):
        kind, token = str(found.lastgroup), found[0]
        depth -= token == ")"
        if token == ";" and depth <= 0:
            yield tokens
            tokens, depth = [], 0
        elif kind != "comment":
            tokens.append(_Token(kind, token, found.start(), found.end(), depth))
        depth += token == "("
    yield tokens


def _definition(text: str, tokens: list[_Token]) -> SqlDefinition | None:
    at = _after(tokens, 0, "CREATE")
    if at is None:
        return None
    at = _after(tokens, at, "OR", "REFRESH") or at
    kind, at = next(
        ((kind, after) for words, kind in _KINDS if (after := _after(tokens, at, *words))), ("", at)
    )
    at = _after(tokens, at, "IF", "NOT", "EXISTS") or at
    if not kind or at >= len(tokens) or tokens[at].kind != "name":
        return None
    name = tokens[at].text
    after = next(
        (i for i in range(at + 1, len(tokens)) if tokens[i].says("AS") and not tokens[i].depth), None
    )
    header = tokens[at + 1 : after]
    comment = len(header) == 2 and header[0].says("COMMENT") and header[1].kind == "text"
    plain = "." not in name and (not header or comment)
    target = name
    if kind == "flow" and after is not None:
        target, after = _inserted(tokens, after, name)
    begins = len(text) if after is None else tokens[after].end
    query = None if after is None else text[begins : tokens[-1].end].strip()
    return SqlDefinition(kind, name, target, tokens[0].start, begins, query or None, plain)


def _inserted(tokens: list[_Token], at: int, name: str) -> tuple[str, int | None]:
    """Of `AS INSERT INTO target BY NAME query`: the target, and the last token before the query."""
    into = _after(tokens, at + 1, "INSERT", "INTO")
    if into is None:
        return name, None
    once = _after(tokens, into, "ONCE")
    into = once or into
    if into >= len(tokens):
        return name, None
    last = (_after(tokens, into + 1, "BY", "NAME") or into + 1) - 1
    return tokens[into].text, None if once else last


def _after(tokens: list[_Token], at: int, *words: str) -> int | None:
    """The position behind the words, if they stand at a position."""
    found = tokens[at : at + len(words)]
    matched = len(found) == len(words) and all(
        token.says(word) for token, word in zip(found, words, strict=True)
    )
    return at + len(words) if matched else None
