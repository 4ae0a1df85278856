"""Reads ranges of partitions until enough was found, within limits of records and time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.consumer.consumer import Consumer
from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.fetching.plan.record_filters import Condition
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.console.machine.search_windows import Bounds, Search, Window
from ottla.model import TopicPartition
from ottla.runtime.clock import monotonic_ms

# One request looks at so many records, for so long; the page then asks whether to go on.
MOST_SCANNED: Final = 50_000
_MOST_MS: Final = 4_000
_LEAST_WIDTH: Final = 20
_MOST_WIDTH: Final = 5_000
_POLL_MS: Final = 500


@dataclass(slots=True)
class Findings:
    """What a search found, and how much it looked at."""

    records: list[ConsumerRecord] = field(default_factory=list)
    scanned: int = 0
    is_cut_short: bool = False

    def add(self, records: list[ConsumerRecord]) -> None:
        self.records += records

    def count(self, scanned: int) -> None:
        self.scanned += scanned

    def cut_short(self) -> None:
        self.is_cut_short = True


async def find(
    pool: ClientPool, caller: Caller, topic: str, search: Search, condition: Condition, limit: int
) -> Findings:
    """Search until `limit` records are found, everything was read, or a limit of effort is reached."""
    findings = Findings()
    deadline_ms = monotonic_ms() + _MOST_MS
    width = _LEAST_WIDTH
    async with pool.reader(caller) as consumer:
        while len(findings.records) < limit:
            windows = search.windows(width)
            if not windows:
                break
            if findings.scanned >= MOST_SCANNED or monotonic_ms() >= deadline_ms:
                findings.cut_short()
                break
            read = await _read(consumer, topic, windows, deadline_ms + _MOST_MS)
            findings.count(sum(map(len, read.values())))
            found = {number: [each for each in some if condition(each)] for number, some in read.items()}
            findings.add(search.read(windows, found, limit - len(findings.records)))
            width = min(width * 4, max(_LEAST_WIDTH, _MOST_WIDTH // len(windows)))
    return findings


async def _read(
    consumer: Consumer, topic: str, windows: Mapping[int, Window], deadline_ms: float
) -> dict[int, list[ConsumerRecord]]:
    """The records of all windows. Offsets without a record (markers, compaction) are passed over."""
    places = {TopicPartition(topic, number): window for number, window in windows.items()}
    found: dict[int, list[ConsumerRecord]] = {number: [] for number in windows}
    consumer.assign(places)
    consumer.resume(places)  # a partition that was assigned before keeps its pause
    for place, window in places.items():
        consumer.seek(place, window.first)
    missing = set(places)
    while missing:
        records = await consumer.poll(max_records=5_000, timeout_ms=_POLL_MS)
        for record in records:
            if record.offset < windows[record.partition].last:
                found[record.partition].append(record)
        done = {place for place in missing if (consumer.position(place) or 0) >= places[place].last}
        missing -= done
        if done and missing:
            consumer.pause(done)
        if monotonic_ms() > deadline_ms:
            raise TimeoutError(f"{topic!r} could not be read in time")
        await asyncio.sleep(0)
    return found


def bounds_of(ends: Mapping[TopicPartition, tuple[int, int]]) -> dict[int, Bounds]:
    """The bounds of a search, by partition."""
    return {place.partition: Bounds(first, last) for place, (first, last) in ends.items()}
