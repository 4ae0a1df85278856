"""A .proto text as words: comments and spaces left out, each with its place."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from ottla.schemas.schema import InvalidSchemaError, shown

_TOKEN: Final = re.compile(
    r"""(?P<space>[\s\ufeff]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)(?![A-Za-z0-9_]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[{}\[\]()<>=;,.:\-+])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Token(NamedTuple):
    """A word, a number, a mark, or a text in quotes; `kind` is empty at the end."""

    kind: str
    text: str
    place: int


class Tokens:
    """The words of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._read()
        self._next = 0

    def _read(self) -> list[Token]:
        made, place, text = [], 0, self._text
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None or match.lastgroup is None:
                self._refuse_at(place, f"{shown(text[place])} cannot be here")
            if match.lastgroup != "space":
                made.append(Token(match.lastgroup, match.group(), place))
            place = match.end()
        made.append(Token("", "the end of the text", place))
        return made

    @property
    def peek(self) -> Token:
        return self._tokens[self._next]

    def take(self) -> Token:
        """The next word, whatever it is."""
        token = self._tokens[self._next]
        if token.kind:
            self._next += 1
        return token

    def skip(self, mark: str) -> bool:
        """Whether the next word is this one; then it is taken."""
        token = self._tokens[self._next]
        is_it = token.text == mark and token.kind in ("mark", "word")
        self._next += is_it
        return is_it

    def expect(self, mark: str) -> None:
        """Take this word. Raises InvalidSchemaError if it is another one."""
        if not self.skip(mark):
            self.refuse(f"expected {mark!r}, found {shown(self.peek.text)}")

    def word(self) -> str:
        """A name. Raises InvalidSchemaError."""
        if self.peek.kind != "word":
            self.refuse(f"expected a name, found {shown(self.peek.text)}")
        return self.take().text

    def path(self) -> str:
        """A name with dots, which may begin with one. Raises InvalidSchemaError."""
        parts = "." if self.skip(".") else ""
        parts += self.word()
        while self.skip("."):
            parts += "." + self.word()
        return parts

    def number(self) -> int:
        """A whole number. Raises InvalidSchemaError."""
        sign = -1 if self.skip("-") else 1
        token = self.peek
        try:
            value = (
                int(token.text, 8 if re.fullmatch("0[0-7]+", token.text) else 0)
                if token.kind == "number"
                else None
            )
        except ValueError:
            value = None
        if value is None or len(token.text) > 20:
            self.refuse(f"expected a whole number, found {shown(token.text)}")
        self.take()
        return sign * value

    def quoted(self) -> str:
        """A text in quotes; texts that follow each other are one. Raises InvalidSchemaError."""
        if self.peek.kind != "text":
            self.refuse(f"expected a text in quotes, found {shown(self.peek.text)}")
        made = ""
        while self.peek.kind == "text":
            made += _ESCAPE.sub(_unescaped, self.take().text[1:-1])
        return made

    def refuse(self, message: str) -> NoReturn:
        """Raises InvalidSchemaError with the line of the next word."""
        self._refuse_at(self.peek.place, message)

    def _refuse_at(self, place: int, message: str) -> NoReturn:
        line = self._text.count("\n", 0, place) + 1
        column = place - (self._text.rfind("\n", 0, place) + 1) + 1
        raise InvalidSchemaError(f"line {line}, column {column}: {message}")


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal, octal, short, long, simple = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if octal is not None:
        return chr(int(octal, 8) & 0xFF)
    code = int(hexadecimal or short or long, 16)
    return chr(code) if code < 0x110000 else "\ufffd"
