"""Options in the normal form: custom ones by their full names, sorted, and those of one message merged."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

from ottla.schemas.protobuf.type_table import Definition, TypeTable
from ottla.schemas.protobuf.types import Field, Literal, Message, Option, Value

_MOST_DIGITS: Final = 60


def normal_options(options: tuple[Option, ...], scope: str, table: TypeTable) -> tuple[Option, ...]:
    """The same options, written in one way."""
    named = sorted((_named(each, scope, table) for each in options), key=lambda each: each.name)
    merged: list[Option] = []
    for each in named:
        extension = table.extensions.get(each.name) if each.is_custom else None
        before = merged[-1] if merged else None
        is_single = extension is not None and extension[0].label != "repeated"
        if before is not None and before.name == each.name and is_single and extension is not None:
            merged[-1] = Option(
                each.name, _merged(extension[0], extension[2], before.value, each.value, table), True
            )
        else:
            merged.append(each)
    return tuple(merged)


def _named(option: Option, scope: str, table: TypeTable) -> Option:
    full = table.resolve_extension(option.name, scope) if option.is_custom else None
    value = _normal(option.value, scope, table)
    if full is None:
        return Option(option.name, value, option.is_custom, option.deep)
    for name in reversed(option.deep):
        value = {name: value}
    return Option(full, value, True)


def _normal(value: Value, scope: str, table: TypeTable) -> Value:
    if isinstance(value, Literal):
        return Literal(plain_number(value.text))
    if isinstance(value, list):
        return [_normal(each, scope, table) for each in value]
    if isinstance(value, dict):
        named: dict[str, Value] = {}
        for key, each in value.items():
            if isinstance(each, list) and not each:
                continue
            full = table.resolve_extension(key[1:-1], scope) if key.startswith("[") else None
            inner = _normal(each, scope, table)
            if isinstance(inner, list) and len(inner) == 1:
                inner = inner[0]
            named.setdefault(f"[{full}]" if full else key, inner)
        return dict(sorted(named.items()))
    return value


def plain_number(text: str) -> str:
    """Whole numbers in decimal, others without an exponent."""
    try:
        if text.lower().lstrip("-").startswith("0x"):
            return str(int(text, 16))
        number = Decimal(text)
    except (ValueError, InvalidOperation):
        return text
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return text
    plain = f"{number.normalize():f}"
    return "0" if plain == "-0" else plain


def _merged(field: Field, scope: str, first: Value, second: Value, table: TypeTable) -> Value:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    container = table.definition(field.type, scope)
    made = dict(first)
    for key, value in second.items():
        inner = _field_named(container, key)
        if key not in made:
            made[key] = value
        elif inner is not None and inner.label != "repeated":
            made[key] = _merged(inner, container.full_name if container else scope, made[key], value, table)
        else:
            made[key] = _joined(made[key], value)
    return dict(sorted(made.items()))


def _joined(first: Value, second: Value) -> Value:
    made = list(first) if isinstance(first, list) else [first]
    made += [each for each in (second if isinstance(second, list) else [second]) if each not in made]
    return made


def _field_named(container: Definition | None, name: str) -> Field | None:
    if container is None or not isinstance(container.part, Message):
        return None
    return next((each for each in container.part.all_fields() if each.name == name), None)
