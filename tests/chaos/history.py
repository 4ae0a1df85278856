"""The history of clients: journals, one for each client, one line for each event.

A line is tab-separated: the event, the time (CLOCK_MONOTONIC in nanoseconds, the same for all processes of a
machine), the partition, and what belongs to the event. Python and Java clients write the same lines
(`Workload.java`).

    sent       time  partition  value             just before the client is handed the record
    acked      time  partition  offset  value     when the client says that the cluster has it (-1: it does not say where)
    failed     time  partition  value   reason    when the client gives it up: it may be there or not
    begun      time  partition  offset            a reader starts, or starts again, at this offset
    read       time  partition  offset  value
    committed  time  partition  offset            when the group's coordinator said so
    resumed    time  partition  offset  asked     what the coordinator says is committed (-1: nothing), and when it was asked

A value is `<producer>-<partition>:<number>`, numbers rising by one, so that it tells who sent it and in which
order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple


class Sent(NamedTuple):
    at_ns: int
    partition: int
    value: str


class Acked(NamedTuple):
    at_ns: int
    partition: int
    offset: int
    value: str


class Failed(NamedTuple):
    at_ns: int
    partition: int
    value: str
    reason: str


class Begun(NamedTuple):
    at_ns: int
    partition: int
    offset: int


class Read(NamedTuple):
    at_ns: int
    partition: int
    offset: int
    value: str


class Committed(NamedTuple):
    at_ns: int
    partition: int
    offset: int


class Resumed(NamedTuple):
    at_ns: int
    partition: int
    offset: int
    asked_ns: int


# A producer may learn from the answer to a later batch that an earlier one, whose answer was lost, is in the log:
# librdkafka then reports success without an offset.
UNKNOWN_OFFSET: Final = -1

Event = Sent | Acked | Failed | Begun | Read | Committed | Resumed


class History(NamedTuple):
    """One client's events in their order. `group` is the consumer group it belongs to, if any."""

    client: str
    events: list[Event]
    group: str | None = None


class Journal:
    """Where a client writes down what happens to it. One writer at a time; lines survive the writer."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, event: str, partition: int, *rest: object) -> None:
        self._file.write("\t".join([event, str(time.monotonic_ns()), str(partition), *map(str, rest)]) + "\n")

    def close(self) -> None:
        self._file.close()


def value_of(producer: str, partition: int, number: int) -> str:
    return f"{producer}-{partition}:{number}"


def origin_of(value: str) -> tuple[str, int]:
    """Who sent a value, to which partition, as one name; and its number. Raises ValueError for what nobody
    sent.
    """
    origin, separator, number = value.rpartition(":")
    if not separator:
        raise ValueError(f"{value!r} is no value of ours")
    return origin, int(number)


def read_journal(path: Path, group: str | None = None) -> History:
    """A client's history; a last line that was cut off when the client was killed did not happen."""
    return History(
        path.stem, list(_events(path.read_text(encoding="utf-8").splitlines(keepends=True))), group
    )


def _events(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        if line.endswith("\n"):
            kind, at, partition, *rest = line[:-1].split("\t")
            yield _event(kind, int(at), int(partition), rest)


def _event(kind: str, at: int, partition: int, rest: list[str]) -> Event:
    match kind, rest:
        case "sent", [value]:
            return Sent(at, partition, value)
        case "acked", [offset, value]:
            return Acked(at, partition, int(offset), value)
        case "failed", [value, reason]:
            return Failed(at, partition, value, reason)
        case "begun", [offset]:
            return Begun(at, partition, int(offset))
        case "read", [offset, value]:
            return Read(at, partition, int(offset), value)
        case "committed", [offset]:
            return Committed(at, partition, int(offset))
        case "resumed", [offset, asked]:
            return Resumed(at, partition, int(offset), int(asked))
    raise ValueError(f"no such event: {kind} {rest}")
