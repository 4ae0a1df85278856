"""Wrong values for the arguments of a public call, made from the call's signature.

A value is wrong for an argument if its annotation does not allow it (`fits`), or if it is absurd: numbers
beyond Kafka's, text that UTF-8 cannot carry, a text where several names are expected.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from ottla.model import TopicPartition

SURROGATE: Final = "\ud800"
ABSURD: Final = (2**70, -(2**70), float("nan"), SURROGATE)
POOL: Final[tuple[Any, ...]] = (
    *ABSURD,
    None,
    True,
    7,
    1.5,
    "abc",
    b"abc",
    ["abc"],
    [7],
    [None],
    {"abc": None},
    {7: "abc"},
    TopicPartition("abc", 0),
    object(),
    print,
)


def arguments_of(call: Callable[..., Any]) -> dict[str, Any]:
    """The annotation of each argument."""
    hints = get_type_hints(call)
    names = inspect.signature(call).parameters
    return {name: hints.get(name, Any) for name in names if name != "self"}


def wrong_values(annotation: Any) -> Iterator[Any]:
    """The values of the pool that an argument with this annotation does not allow."""
    return (value for value in POOL if not fits(annotation, value))


def fits(annotation: Any, value: Any) -> bool:
    """Whether the value is right for the annotation, as far as types go."""
    origin = get_origin(annotation)
    if origin is UnionType or origin is typing.Union:
        return any(fits(each, value) for each in get_args(annotation))
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(annotation))
    if annotation is Any or annotation is object or isinstance(annotation, TypeVar):
        return True
    if annotation is None or annotation is NoneType:
        return value is None
    if isinstance(value, str | bytes) and origin in (Iterable, Sequence):
        return False
    if origin in (Iterable, Sequence):
        (item,) = get_args(annotation)
        is_several = isinstance(value, origin) and not isinstance(value, TopicPartition)
        return is_several and all(fits(item, each) for each in value)
    if origin is Mapping:
        key, item = get_args(annotation)
        return isinstance(value, Mapping) and all(
            fits(key, each) and fits(item, other) for each, other in value.items()
        )
    if origin is not None and not isinstance(origin, type):
        return True
    return _is_instance(origin or annotation, value)


def _is_instance(kind: Any, value: Any) -> bool:
    if kind is Callable or getattr(kind, "__name__", "") == "Callable":
        return callable(value)
    if kind in (int, float) or kind is datetime:
        is_number = isinstance(value, kind) or (kind is float and isinstance(value, int))
        return is_number and not isinstance(value, bool) and not _is_absurd(value)
    if kind is str:
        return isinstance(value, str) and value != SURROGATE
    return isinstance(value, kind)


def _is_absurd(value: Any) -> bool:
    return any(value is each for each in ABSURD)
