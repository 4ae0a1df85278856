"""Which offsets a search reads next, and what of it is shown.

A search goes forwards from a place, or backwards from the end, over several partitions at once: each round reads a
window of offsets of every partition that has some left. What is found is merged by time, with the order of each
partition kept, and cut after `limit` records. The cursor says where the next request goes on: in front of the first
record of each partition that was cut off, else at the border of the window. So nothing is shown twice or left out.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord

_PAIR: Final = re.compile(r"(\d{1,9}):(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition that a search may read: from `first`, before `last`."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets of a partition to be read: from `first`, before `last`."""

    first: int
    last: int


class Search:
    """The progress of one search. `places` is where it goes on: the next offset forwards, the end backwards."""

    def __init__(
        self, bounds: Mapping[int, Bounds], places: Mapping[int, int], *, is_backwards: bool
    ) -> None:
        self._bounds = dict(bounds)
        self._is_backwards = is_backwards
        self.places = {
            partition: min(max(places.get(partition, self._begin(each)), each.first), each.last)
            for partition, each in bounds.items()
        }

    def windows(self, width: int) -> dict[int, Window]:
        """What to read next: at most `width` offsets of each partition that has some left."""
        found: dict[int, Window] = {}
        for partition, bounds in self._bounds.items():
            place = self.places[partition]
            if self._is_backwards:
                window = Window(max(bounds.first, place - width), place)
            else:
                window = Window(place, min(bounds.last, place + width))
            if window.first < window.last:
                found[partition] = window
        return found

    def read(
        self, windows: Mapping[int, Window], found: Mapping[int, Sequence[ConsumerRecord]], limit: int
    ) -> list[ConsumerRecord]:
        """Note that windows were read; returns the records to show, and leaves the others for the next request."""
        for partition, window in windows.items():
            self.places[partition] = window.first if self._is_backwards else window.last
        step = -1 if self._is_backwards else 1
        merged = list(
            heapq.merge(
                *(found.get(partition, ())[::step] for partition in windows),
                key=lambda record: step * record.timestamp_ms,
            )
        )
        for record in merged[limit:]:
            place = self.places[record.partition]
            if self._is_backwards:
                self.places[record.partition] = max(place, record.offset + 1)
            else:
                self.places[record.partition] = min(place, record.offset)
        return merged[:limit]

    @property
    def is_over(self) -> bool:
        """Whether everything was read."""
        return not self.windows(1)

    @property
    def remaining(self) -> int:
        """How many offsets are left."""
        return sum(
            self.places[partition] - each.first if self._is_backwards else each.last - self.places[partition]
            for partition, each in self._bounds.items()
        )

    @property
    def cursor(self) -> str | None:
        """Where another request goes on; None at the end."""
        if self.is_over:
            return None
        return ",".join(f"{partition}:{place}" for partition, place in sorted(self.places.items()))

    def _begin(self, bounds: Bounds) -> int:
        return bounds.last if self._is_backwards else bounds.first


def parse_cursor(text: str) -> dict[int, int]:
    """The place of each partition. Raises ValueError with a sentence."""
    places: dict[int, int] = {}
    for part in text.split(",") if text else ():
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise ValueError(f"the cursor cannot be {text[:50]!r}: send the one of the answer before")
        places[int(pair[1])] = int(pair[2])
    return places
