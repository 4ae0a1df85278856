"""A .proto text as parts: proto2 and proto3, as protoc reads them. Editions and groups are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.schemas.protobuf.option_text import read_option, read_options
from ottla.schemas.protobuf.tokens import Tokens
from ottla.schemas.protobuf.types import (
    MOST_NUMBER,
    Constant,
    Enumeration,
    Extend,
    Extensions,
    Field,
    File,
    Literal,
    Message,
    Method,
    OneOf,
    Option,
    Reserved,
    Service,
    Span,
)
from ottla.schemas.schema import shown

P = TypeVar("P")
_LABELS: Final = ("optional", "required", "repeated")
_MOST_LEVELS: Final = 100
_MOST_ENUM: Final = 2**31 - 1


def parse_file(text: str) -> File:
    """The parts of a text. Raises InvalidSchemaError with line and column."""
    return _Parser(Tokens(text)).file()


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def file(self) -> File:
        tokens = self._tokens
        syntax, package, parts = None, "", _Parts()
        while tokens.peek.kind:
            if tokens.skip(";"):
                continue
            match tokens.word():
                case "syntax":
                    syntax = self._syntax()
                case "edition":
                    tokens.refuse("editions are not served: use syntax proto2 or proto3")
                case "package":
                    package = self._ended(tokens.path)
                case "import":
                    self._import(parts)
                case "service":
                    parts.add("services", self._service())
                case word:
                    self._definition(word, parts, 0)
        return File(syntax, package, **parts.tuples())

    def _syntax(self) -> str:
        self._tokens.expect("=")
        found = self._ended(self._tokens.quoted)
        if found not in ("proto2", "proto3"):
            self._tokens.refuse(f"the syntax can be proto2 or proto3, not {shown(found)}")
        return found

    def _import(self, parts: _Parts) -> None:
        is_public = self._tokens.skip("public")
        if not is_public:
            self._tokens.skip("weak")
        parts.add("public_imports" if is_public else "imports", self._ended(self._tokens.quoted))

    def _definition(self, word: str, parts: _Parts, level: int) -> bool:
        """What can be in a file and in a message."""
        match word:
            case "message":
                parts.add("messages", self._message(level + 1))
            case "enum":
                parts.add("enums", self._enum())
            case "extend":
                parts.add("extends", self._extend())
            case "option":
                parts.add("options", self._ended(lambda: read_option(self._tokens)))
            case _:
                if level:
                    return False
                self._tokens.refuse(
                    f"{shown(word)} cannot be here: expected message, enum, import, option ..."
                )
        return True

    def _message(self, level: int) -> Message:
        tokens, parts = self._tokens, _Parts()
        if level > _MOST_LEVELS:
            tokens.refuse(f"messages are nested in more than {_MOST_LEVELS} levels")
        name = tokens.word()
        for word in self._block():
            if word not in _WORDS:
                parts.add("fields", self._field(self._type(word), None))
            elif word in _LABELS:
                parts.add("fields", self._field(self._type(), word))
            elif word == "oneof":
                parts.add("one_ofs", self._one_of())
            elif word == "reserved":
                parts.add("reserved", self._reserved(MOST_NUMBER))
            elif word == "extensions":
                parts.add("extensions", self._extensions())
            elif not self._definition(word, parts, level):
                tokens.refuse(f"expected a field, found {shown(word)}")
        return Message(name, **parts.tuples())

    def _block(self) -> Any:
        """The first word of each statement of a block; the caller reads the rest."""
        tokens = self._tokens
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if not tokens.peek.kind:
                tokens.refuse("a } is missing")
            yield "." if tokens.skip(".") else tokens.word()
        tokens.skip(";")

    def _type(self, word: str | None = None) -> str:
        tokens = self._tokens
        if word is None:
            word = "." if tokens.skip(".") else tokens.word()
        if word == "map" and tokens.skip("<"):
            key = tokens.word()
            tokens.expect(",")
            value = tokens.path()
            tokens.expect(">")
            return f"map<{key}, {value}>"
        if word == "group" and tokens.peek.kind == "word":
            self._refuse_group()
        name = "." + tokens.word() if word == "." else word
        while tokens.skip("."):
            name += "." + tokens.word()
        return name

    def _refuse_group(self) -> None:
        self._tokens.refuse("groups are not served: use a nested message and a field of its type")

    def _field(self, kind: str, label: str | None) -> Field:
        tokens = self._tokens
        name = tokens.word()
        tokens.expect("=")
        number = tokens.number()
        options = self._ended(lambda: read_options(tokens))
        special = {each.name: each for each in options if not each.is_custom and not each.deep}
        kept = tuple(each for each in options if each.is_custom or each.name not in ("default", "json_name"))
        return Field(
            name,
            kind,
            number,
            label,
            _word_of(special.get("default")),
            _word_of(special.get("json_name")),
            kept,
        )

    def _one_of(self) -> OneOf:
        name, fields, options = self._tokens.word(), [], []
        for word in self._block():
            if word == "option" and self._tokens.peek.text != "=":
                options.append(self._ended(lambda: read_option(self._tokens)))
            else:
                fields.append(self._field(self._type(word), None))
        return OneOf(name, tuple(fields), tuple(options))

    def _enum(self) -> Enumeration:
        tokens, parts = self._tokens, _Parts()
        name = tokens.word()
        for word in self._block():
            if word == "option" and tokens.peek.text != "=":
                parts.add("options", self._ended(lambda: read_option(tokens)))
            elif word == "reserved" and tokens.peek.text != "=":
                parts.add("reserved", self._reserved(_MOST_ENUM))
            else:
                tokens.expect("=")
                number = tokens.number()
                parts.add("constants", Constant(word, number, self._ended(lambda: read_options(tokens))))
        return Enumeration(name, **parts.tuples())

    def _extend(self) -> Extend:
        name = self._tokens.path()
        fields = []
        for word in self._block():
            label = word if word in _LABELS else None
            fields.append(self._field(self._type(None if label else word), label))
        return Extend(name, tuple(fields))

    def _reserved(self, most: int) -> Reserved:
        tokens = self._tokens
        values: list[Span | str] = []
        while True:
            if tokens.peek.kind == "text":
                values.append(tokens.quoted())
            elif tokens.peek.kind == "word":
                values.append(tokens.word())
            else:
                values.append(self._span(most))
            if not tokens.skip(","):
                tokens.expect(";")
                return tuple(values)

    def _span(self, most: int) -> Span:
        first = self._tokens.number()
        if not self._tokens.skip("to"):
            return Span(first, first)
        last = most if self._tokens.skip("max") else self._tokens.number()
        return Span(first, last, is_range=True)

    def _extensions(self) -> Extensions:
        spans = [self._span(MOST_NUMBER)]
        while self._tokens.skip(","):
            spans.append(self._span(MOST_NUMBER))
        return Extensions(tuple(spans), self._ended(lambda: read_options(self._tokens)))

    def _service(self) -> Service:
        name, methods, options = self._tokens.word(), [], []
        for word in self._block():
            if word == "option":
                options.append(self._ended(lambda: read_option(self._tokens)))
            elif word == "rpc":
                methods.append(self._method())
            else:
                self._tokens.refuse(f"expected rpc or option, found {shown(word)}")
        return Service(name, tuple(methods), tuple(options))

    def _method(self) -> Method:
        tokens = self._tokens
        name = tokens.word()
        asks, request = self._message_of_method()
        tokens.expect("returns")
        answers, response = self._message_of_method()
        options: list[Option] = []
        if tokens.peek.text == "{":
            for word in self._block():
                if word != "option":
                    tokens.refuse(f"expected option, found {shown(word)}")
                options.append(self._ended(lambda: read_option(tokens)))
        else:
            tokens.expect(";")
        return Method(name, request, response, asks, answers, tuple(options))

    def _message_of_method(self) -> tuple[bool, str]:
        tokens = self._tokens
        tokens.expect("(")
        is_stream = tokens.skip("stream") and tokens.peek.text != ")"
        name = tokens.path() if is_stream or tokens.peek.text != ")" else "stream"
        tokens.expect(")")
        return is_stream, name

    def _ended(self, read: Callable[[], P]) -> P:
        value = read()
        self._tokens.expect(";")
        return value


_WORDS: Final = frozenset(
    (*_LABELS, "oneof", "reserved", "extensions", "message", "enum", "extend", "option")
)


class _Parts:
    """What a block has, by kind."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}

    def add(self, kind: str, part: Any) -> None:
        self._found.setdefault(kind, []).append(part)

    def tuples(self) -> dict[str, tuple[Any, ...]]:
        return {kind: tuple(parts) for kind, parts in self._found.items()}


def _word_of(option: Option | None) -> str | None:
    if option is None:
        return None
    value = option.value
    return value.text if isinstance(value, Literal) else str(value)
