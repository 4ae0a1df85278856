"""Judges histories: what clients saw, beside what the log holds when everything is over.

Anomalies that the checker looks for, after Jepsen's analyses of Kafka-like systems:

lost              acknowledged, and not in the log
moved             acknowledged at an offset where the log has something else
duplicated        in the log twice, though its producer was idempotent and sent it once
reordered         before a record that the same producer sent earlier to the same partition
invented          in the log, and not sent by any producer
gap               an offset that the log passes over (no compaction, no transactions: there is none)
read uncommitted  read by a consumer, and not in the log, or not at that offset
non-monotonic     a consumer was given an offset that is not above the one before
skipped           a consumer, or a whole group, was never given a record that the log has
stale offset      acknowledged at an offset that was known before the record was sent; or a group was told an
older
                  committed offset than one that had been acknowledged before it asked
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tests.chaos.history import (
    UNKNOWN_OFFSET,
    Acked,
    Begun,
    Committed,
    Failed,
    History,
    Read,
    Resumed,
    Sent,
    origin_of,
)

Log = Mapping[int, Sequence[tuple[int, str]]]  # partition → (offset, value), in the order of the log


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that must not happen, and where it did."""

    kind: str
    partition: int
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: partition {self.partition}, {self.detail}"


KINDS = (
    "lost",
    "moved",
    "duplicated",
    "reordered",
    "invented",
    "gap",
    "read uncommitted",
    "non-monotonic",
    "skipped",
    "stale offset",
)


def judge(log: Log, histories: Sequence[History]) -> list[Anomaly]:
    """Everything that is wrong; empty when all promises were kept."""
    stored = {partition: dict(records) for partition, records in log.items()}
    found = [*_log_anomalies(log, histories), *_acknowledgement_anomalies(stored, histories)]
    for history in histories:
        found += _reader_anomalies(stored, history)
    for group in sorted({history.group for history in histories if history.group}):
        found += _group_anomalies(stored, [each for each in histories if each.group == group], group)
    return found


def _log_anomalies(log: Log, histories: Iterable[History]) -> Iterator[Anomaly]:
    sent = {event.value for history in histories for event in history.events if isinstance(event, Sent)}
    for partition, records in log.items():
        for place, (offset, _) in enumerate(records):
            if offset != place:
                yield Anomaly("gap", partition, f"offset {offset} stands at place {place}")
                break
        counts = Counter(value for _, value in records)
        for value, times in counts.items():
            if times > 1:
                yield Anomaly("duplicated", partition, f"{value} is there {times} times")
            if value not in sent:
                yield Anomaly("invented", partition, f"nobody sent {value!r}")
        yield from _order_anomalies(partition, records)


def _order_anomalies(partition: int, records: Iterable[tuple[int, str]]) -> Iterator[Anomaly]:
    latest: dict[str, int] = {}
    for offset, value in records:
        try:
            origin, number = origin_of(value)
        except ValueError:
            continue  # invented, and said so already
        if number < latest.get(origin, -1):
            detail = f"{value} at {offset} follows {origin}:{latest[origin]}"
            yield Anomaly("reordered", partition, detail)
        latest[origin] = max(number, latest.get(origin, -1))


def _acknowledgement_anomalies(
    stored: Mapping[int, Mapping[int, str]], histories: Sequence[History]
) -> Iterator[Anomaly]:
    acks: dict[int, list[Acked]] = defaultdict(list)
    sent_ns: dict[str, int] = {}
    for history in histories:
        for event in history.events:
            if isinstance(event, Acked):
                acks[event.partition].append(event)
            elif isinstance(event, Sent):
                sent_ns[event.value] = event.at_ns
    for partition, acknowledged in acks.items():
        held = stored.get(partition, {})
        places = {value: offset for offset, value in held.items()}
        for ack in acknowledged:
            if ack.value not in places:
                yield Anomaly("lost", partition, f"{ack.value}, acknowledged at {ack.offset}")
            elif ack.offset != UNKNOWN_OFFSET and held.get(ack.offset) != ack.value:
                detail = f"{ack.value}, acknowledged at {ack.offset}, is at {places[ack.value]}"
                yield Anomaly("moved", partition, detail)
        placed = [ack for ack in acknowledged if ack.offset != UNKNOWN_OFFSET]
        yield from _stale_acknowledgements(partition, placed, sent_ns)


def _stale_acknowledgements(
    partition: int, acks: Iterable[Acked], sent_ns: Mapping[str, int]
) -> Iterator[Anomaly]:
    """An acknowledged record lies above every offset that was known before it was sent."""
    ordered = sorted(acks)
    times = [ack.at_ns for ack in ordered]
    highest = list(accumulate((ack.offset for ack in ordered), max))
    for ack in ordered:
        known = bisect_left(times, sent_ns.get(ack.value, 0))
        if known and highest[known - 1] >= ack.offset:
            detail = f"{ack.value} got {ack.offset}, and {highest[known - 1]} was known before it was sent"
            yield Anomaly("stale offset", partition, detail)


def _reader_anomalies(stored: Mapping[int, Mapping[int, str]], history: History) -> Iterator[Anomaly]:
    """One consumer: what it was given is in the log, in order, and from its start on without holes."""
    positions: dict[int, int] = {}
    for event in history.events:
        if isinstance(event, Begun):
            positions[event.partition] = event.offset
        elif isinstance(event, Read):
            held = stored.get(event.partition, {})
            there = held.get(event.offset)
            if there != event.value:
                detail = f"{history.client} read {event.value} at {event.offset}, where the log has {there}"
                yield Anomaly("read uncommitted", event.partition, detail)
            expected = positions.get(event.partition, event.offset)
            if event.offset < expected:
                detail = f"{history.client} was given {event.offset} after {expected - 1}"
                yield Anomaly("non-monotonic", event.partition, detail)
            missed = sum(offset in held for offset in range(expected, event.offset))
            if missed:
                detail = (
                    f"{history.client} was given {event.offset} after {expected - 1}, past {missed} records"
                )
                yield Anomaly("skipped", event.partition, detail)
            positions[event.partition] = event.offset + 1


def _group_anomalies(
    stored: Mapping[int, Mapping[int, str]], members: Sequence[History], group: str
) -> Iterator[Anomaly]:
    """A group as a whole: every record was read by a member, and commits that were acknowledged are not
    forgotten.
    """
    read: dict[int, set[int]] = defaultdict(set)
    commits: dict[int, list[Committed]] = defaultdict(list)
    resumed: list[tuple[str, Resumed]] = []
    for history in members:
        for event in history.events:
            if isinstance(event, Read):
                read[event.partition].add(event.offset)
            elif isinstance(event, Committed):
                commits[event.partition].append(event)
            elif isinstance(event, Resumed):
                resumed.append((history.client, event))
    for partition, held in stored.items():
        end = max(read[partition], default=-1)
        missed = [offset for offset in held if offset < end and offset not in read[partition]]
        if missed:
            detail = f"group {group} read up to {end} and never {missed[0]} ({len(missed)} in all)"
            yield Anomaly("skipped", partition, detail)
    for client, event in resumed:
        known = [each.offset for each in commits[event.partition] if each.at_ns < event.asked_ns]
        if known and event.offset < max(known):
            detail = (
                f"{client} was told {event.offset} is committed, after {max(known)} had been acknowledged"
            )
            yield Anomaly("stale offset", event.partition, detail)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was judged: a verdict over nothing says nothing."""

    sent: int
    acked: int
    failed: int
    read: int
    committed: int


def count(histories: Iterable[History]) -> Counts:
    kinds = Counter(type(event) for history in histories for event in history.events)
    return Counts(kinds[Sent], kinds[Acked], kinds[Failed], kinds[Read], kinds[Committed])
