"""The id of an event: how far every partition was read, such as `0:15,1:7`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.model import TopicPartition

_PAIR = re.compile(r"(\d{1,9}):(\d{1,18})", re.ASCII)


def event_id(positions: Mapping[TopicPartition, int]) -> str:
    return ",".join(f"{place.partition}:{offset}" for place, offset in sorted(positions.items()))


def parse_event_id(text: str) -> dict[int, int]:
    """The offset of each partition; empty for an empty text. Raises ValueError with a sentence."""
    positions: dict[int, int] = {}
    for part in text.split(",") if text.strip() else ():
        pair = _PAIR.fullmatch(part.strip())
        if pair is None:
            raise ValueError(
                f"Last-Event-ID cannot be {text[:50]!r}: expected the id of an event, such as 0:15,1:7"
            )
        positions[int(pair[1])] = int(pair[2])
    return positions
