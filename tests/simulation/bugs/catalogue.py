"""All planted bugs by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Final

from tests.simulation.bugs import (
    consumers,
    controller,
    damage,
    followers,
    groups,
    logs,
    partitions,
    producers,
    quorum,
    replication,
    requests,
    security,
    tiers,
    transactional_records,
    transactions,
)
from tests.simulation.bugs.bug import Bug

ROOMS: Final = (
    replication,
    controller,
    partitions,
    followers,
    groups,
    quorum,
    requests,
    logs,
    producers,
    consumers,
    damage,
    security,
    tiers,
    transactions,
    transactional_records,
)
BUGS: Final[Mapping[str, Bug]] = {bug.name: bug for bug in chain.from_iterable(room.BUGS for room in ROOMS)}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Shipped code with one bug in it, or none."""
    if name is None:
        yield
        return
    with BUGS[name].planted():
        yield
