"""Where a query begins or ends, before the cluster was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import LATEST

Strategy: TypeAlias = Literal["error", "latest"]


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record that is still there."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the newest record."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; -1 is the latest, -2 the earliest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after a time, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a time of its own for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]


Position: TypeAlias = Earliest | Latest | AtOffsets | AtTimestamp | AtTimestamps


def depends_on_the_end(position: Position, strategy: Strategy) -> bool:
    """Whether asking again later, when more records have come, could give another answer."""
    match position:
        case Latest():
            return True
        case AtOffsets(offsets):
            return LATEST in offsets.values()
        case AtTimestamp() | AtTimestamps():
            return strategy == "latest"
        case Earliest():
            return False
