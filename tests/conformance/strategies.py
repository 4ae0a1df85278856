"""Random messages: a hypothesis strategy for any declared class in any of its versions.

Only fields that the version has are drawn; the others keep their default, so that what is read back must be
equal. Sizes are small, but cross the bounds where a compact length grows by a byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.protocol.declaration import Wire
from ottla.protocol.layout import Field, layout

# Narrows what is drawn for a field (a foreign codec may not hold every value); None leaves it as it is.
Narrowing = Callable[[Field], "st.SearchStrategy[Any] | None"]

_LONG_STRINGS = ["x" * 126, "x" * 127, "é" * 64, "€" * 6000]
_LONG_BYTES = [bytes(126), bytes(127), bytes(16382), bytes(16383)]

_WIRES: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": st.uuids(allow_nil=True),
    "string": st.text(max_size=6) | st.text(max_size=6) | st.sampled_from(_LONG_STRINGS),
    "bytes": st.binary(max_size=6) | st.sampled_from(_LONG_BYTES),
    "records": (st.binary(max_size=6) | st.sampled_from(_LONG_BYTES)).map(memoryview),
}


def no_narrowing(field: Field) -> None:
    """Draw whatever the wire allows."""


@cache  # a strategy costs more to make than to draw from
def messages(cls: type[Any], version: int, narrow: Narrowing = no_narrowing) -> st.SearchStrategy[Any]:
    """Instances of a declared class as one version can carry them."""
    fields = layout(cls, version)
    drawn = {f.name: _field(f, version, narrow) for f in (*fields.plain, *fields.tagged)}
    return st.builds(cls, **drawn)


def _field(field: Field, version: int, narrow: Narrowing) -> st.SearchStrategy[Any]:
    if field.is_array and not isinstance(field.kind, Wire) and (narrowed := narrow(field)) is not None:
        return narrowed
    values = _value(field, version, narrow)
    if field.is_array:
        values = st.lists(values, max_size=2) | _long_lists(field, values)
    if field.tag is not None:  # half of them absent, that is, default
        values = st.just(field.default) | values
    return st.none() | values if field.is_nullable(version) else values


def _value(field: Field, version: int, narrow: Narrowing) -> st.SearchStrategy[Any]:
    if isinstance(field.kind, Wire):
        narrowed = narrow(field)
        return _WIRES[field.kind.name] if narrowed is None else narrowed
    kind: Any = field.kind
    return messages(kind, version, narrow)


def _long_lists(field: Field, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists whose count takes two bytes, of equal elements so that they are quick to draw."""
    if isinstance(field.kind, Wire):
        return values.map(lambda value: [value] * 130)
    return st.nothing()
