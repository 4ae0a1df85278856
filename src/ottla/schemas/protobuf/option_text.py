"""Options: read from a .proto text, and written to one."""

from __future__ import annotations

from typing import Final

from ottla.schemas.protobuf.tokens import Tokens
from ottla.schemas.protobuf.types import Literal, Option, Value
from ottla.schemas.schema import shown

_MOST_LEVELS: Final = 100
_CLOSING: Final = {"{": "}", "<": ">"}
_ESCAPES: Final = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
        "\\": "\\\\", "'": "\\'", '"': '\\"',
    }
)  # fmt: skip


def read_options(tokens: Tokens) -> tuple[Option, ...]:
    """Options in brackets, if there are any. Raises InvalidSchemaError."""
    if not tokens.skip("["):
        return ()
    made = [read_option(tokens)]
    while tokens.skip(","):
        made.append(read_option(tokens))
    tokens.expect("]")
    return tuple(made)


def read_option(tokens: Tokens) -> Option:
    """One option with its value. Raises InvalidSchemaError."""
    is_custom = tokens.skip("(")
    name = tokens.path()
    deep: list[str] = []
    if is_custom:
        tokens.expect(")")
    while tokens.skip("."):
        if tokens.skip("("):
            deep.append(f"[{tokens.path()}]")
            tokens.expect(")")
        else:
            deep += tokens.path().split(".")
    if not is_custom and "." in name:
        name, *rest = name.split(".")
        deep = [*rest, *deep]
    tokens.expect("=")
    return Option(name, _value(tokens, 0), is_custom, tuple(deep))


def _value(tokens: Tokens, level: int) -> Value:
    if level > _MOST_LEVELS:
        tokens.refuse(f"an option is nested in more than {_MOST_LEVELS} levels")
    token = tokens.peek
    if token.kind == "text":
        return tokens.quoted()
    if token.text in _CLOSING and token.kind == "mark":
        return _map(tokens, level)
    if tokens.skip("["):
        return _list(tokens, level)
    sign = "-" if tokens.skip("-") else "+" if tokens.skip("+") else ""
    if tokens.peek.kind not in ("word", "number"):
        tokens.refuse(f"expected the value of an option, found {shown(tokens.peek.text)}")
    word = tokens.take().text
    while tokens.skip("."):
        word += "." + tokens.word()
    return Literal(sign.replace("+", "") + word)


def _list(tokens: Tokens, level: int) -> list[Value]:
    values: list[Value] = []
    while not tokens.skip("]"):
        values.append(_value(tokens, level + 1))
        if not tokens.skip(","):
            tokens.expect("]")
            break
    return values


def _map(tokens: Tokens, level: int) -> dict[str, Value]:
    closing = _CLOSING[tokens.take().text]
    made: dict[str, Value] = {}
    while not tokens.skip(closing):
        if tokens.skip("["):
            key = f"[{tokens.path()}]"
            tokens.expect("]")
        else:
            key = tokens.word()
        if not tokens.skip(":") and tokens.peek.text not in _CLOSING:
            tokens.refuse(f"expected ':', found {shown(tokens.peek.text)}")
        value = _value(tokens, level + 1)
        if key in made:
            before = made[key]
            made[key] = [
                *(before if isinstance(before, list) else [before]),
                *(value if isinstance(value, list) else [value]),
            ]
        else:
            made[key] = value
        if not tokens.skip(","):
            tokens.skip(";")
    return made


# ---- writing


def option_text(option: Option) -> str:
    """`name = value`, as it stands between brackets or behind the word option."""
    name = f"({option.name})" if option.is_custom else option.name
    value = option.value
    shown_value = (
        f"[{value_text(value[0])}]" if isinstance(value, list) and len(value) == 1 else value_text(value)
    )
    return ".".join((name, *option.deep)) + " = " + shown_value


def options_text(options: tuple[Option, ...]) -> str:
    """The options behind a field or a constant, with the space before them."""
    if not options:
        return ""
    if len(options) == 1:
        return f" [{option_text(options[0])}]"
    return " [\n" + indented(",\n".join(map(option_text, options))) + "]"


def value_text(value: Value) -> str:
    """A value; maps and lists have a line for each part."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, list):
        return "[\n" + indented(",\n".join(map(value_text, value))) + "]"
    return "{\n" + indented(",\n".join(f"{key}: {value_text(each)}" for key, each in value.items())) + "}"


def quoted(text: str) -> str:
    """A text in quotes."""
    return f'"{text.translate(_ESCAPES)}"'


def indented(text: str) -> str:
    """Each line two spaces further right; the text ends with a new line."""
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n")) if text else ""
