"""Random messages from a seed, quickly: what a fuzzer starts from."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from ottla.protocol.declaration import Wire
from ottla.protocol.layout import Field, layout

_STRINGS = ["", "a", "topic-1", "é", "x" * 127, "y" * 300]
_SIZES = [0, 1, 61, 126, 127, 200]


def random_message(cls: type[Any], version: int, random: Random) -> Any:
    """An instance of `cls` as one version can carry it."""
    fields = layout(cls, version)
    present = (*fields.plain, *(f for f in fields.tagged if random.random() < 0.5))
    return cls(**{f.name: _field(f, version, random) for f in present})


def _field(field: Field, version: int, random: Random) -> Any:
    if field.is_nullable(version) and random.random() < 0.3:
        return None
    if field.is_array:
        return [_value(field, version, random) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    return _value(field, version, random)


def _value(field: Field, version: int, random: Random) -> Any:
    if isinstance(field.kind, Wire):
        return _scalar(field.kind, random)
    return random_message(field.kind, version, random)


def _scalar(wire: Wire, random: Random) -> Any:
    if wire.name == "string":
        return random.choice(_STRINGS)
    if wire.name in ("bytes", "records"):
        return memoryview(random.randbytes(random.choice(_SIZES)))
    if wire.name == "uuid":
        return UUID(int=random.choice([0, random.getrandbits(128)]))
    if wire.name == "bool":
        return random.random() < 0.5
    if wire.name == "float64":
        return random.uniform(-1e9, 1e9)
    return _integer(wire, random)


def _integer(wire: Wire, random: Random) -> int:
    bits = wire.size_bytes * 8
    lowest = 0 if wire.name.startswith("u") else -(1 << bits - 1)
    highest = lowest + (1 << bits) - 1
    return random.choice([0, 1, lowest, highest, random.randint(lowest, highest)])
