"""How far each flow of a running pipeline is: states from Spark's events, rows and offsets from its streaming
queries.

Both come from threads of Spark's client, so the board has a lock; a view takes a snapshot of it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.spark.pipelines.events import COMPLETED, ENDED, QUEUED, RUNNING, FlowEvent

Offsets = Mapping[tuple[str, int], int]
_UNSEEN: Final[Offsets] = {}


@dataclass(frozen=True, slots=True)
class FlowProgress:
    """One flow: its state in this update, and what it read in all updates of this process."""

    name: str
    state: str = QUEUED
    rows: int | None = None  # None: Spark does not count a batch flow's
    rows_in_update: int = 0
    rows_per_s: float | None = None
    position: Offsets = field(default_factory=dict)  # the next offset to read, by topic and partition
    behind: int | None = None  # records between the position and the end of the topics
    error: str | None = None


class Board:
    """The flows of a pipeline, in the order of their first event."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flows: dict[str, FlowProgress] = {}

    def begin(self) -> None:
        """A new update: no flow has a state yet, what was counted stays."""
        with self._lock:
            for name, flow in self._flows.items():
                self._flows[name] = replace(flow, state=QUEUED, rows_in_update=0, rows_per_s=None, error=None)

    def note(self, event: FlowEvent) -> None:
        with self._lock:
            flow = self._flows.get(event.flow, FlowProgress(event.flow))
            if flow.state in ENDED and event.state == COMPLETED:
                return  # Spark reports the end of a failed stream as a completion
            self._flows[event.flow] = replace(flow, state=event.state, error=event.error or flow.error)

    def progress(self, name: str, rows: int, rows_per_s: float | None, offsets: Offsets) -> None:
        """A streaming query has done a batch."""
        with self._lock:
            flow = self._flows.get(name, FlowProgress(name, RUNNING))
            self._flows[name] = replace(
                flow,
                rows=(flow.rows or 0) + rows,
                rows_in_update=flow.rows_in_update + rows,
                rows_per_s=rows_per_s if rows else flow.rows_per_s,
                position={**flow.position, **offsets},
            )

    def measure(self, ends: Offsets) -> None:
        """The topics' ends are known: say how far behind each flow is."""
        with self._lock:
            for name, flow in self._flows.items():
                if flow.position:
                    lag = sum(max(0, ends.get(at, next_) - next_) for at, next_ in flow.position.items())
                    self._flows[name] = replace(flow, behind=lag)

    def topics(self) -> set[str]:
        with self._lock:
            return {topic for flow in self._flows.values() for topic, _ in flow.position}

    def flows(self) -> list[FlowProgress]:
        with self._lock:
            return list(self._flows.values())


def parse_offsets(texts: Iterable[str | None]) -> Offsets:
    """The positions in sources' offsets that are Kafka's: `{"orders": {"0": 23}}`; others are passed over."""
    offsets: dict[tuple[str, int], int] = {}
    for text in texts:
        offsets.update(_positions(text))
    return offsets


def _positions(text: str | None) -> Offsets:
    try:
        content: Any = json.loads(text or "null")
        return {
            (topic, int(partition)): offset
            for topic, partitions in content.items()
            for partition, offset in partitions.items()
            if isinstance(offset, int)
        }
    except (ValueError, AttributeError):
        return _UNSEEN
