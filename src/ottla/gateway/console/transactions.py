"""Transactions: open ones, who holds readers back, and for how long."""

from __future__ import annotations

from typing import Any, Final

from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.transactions import ActiveProducer, TransactionDescription, hanging_transactions
from ottla.errors import KafkaError
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.listing import LIST_PARAMETERS, named_like, page_of
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.model import TopicPartition
from ottla.runtime.clock import OsClock

# A transaction that began just now may not be known to its coordinator yet.
_SILENT_MS: Final = 5_000


class TransactionPages:
    """What the page shows of transactions."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def routes(self) -> tuple[Route, ...]:
        only_open = Parameter("open", "Only transactions that are not finished.", "boolean", True)
        return (
            self._door.reads(
                "/transactions",
                self._list,
                "Transactional ids, a page at a time.",
                (*LIST_PARAMETERS, only_open),
            ),
            self._door.reads(
                "/held-readers", self._held, "Partitions whose readers are held back, and by whom."
            ),
        )

    async def _list(self, visit: Visit) -> Any:
        listed = await visit.admin.list_transactions()
        if visit.query["open"]:
            listed = [each for each in listed if each.state in ("Ongoing", "PrepareCommit", "PrepareAbort")]
        found = named_like(listed, visit.query["search"], lambda each: each.transactional_id)
        rows, facts = page_of(found, visit.query["page"], visit.query["per_page"])
        described = (
            await visit.admin.describe_transactions([each.transactional_id for each in rows]) if rows else {}
        )
        now_ms = OsClock().wall_ms()
        return {
            "transactions": [
                _shown(each, now_ms)
                for each in described.values()
                if isinstance(each, TransactionDescription)
            ],
            **facts,
            "command": visit.commands.line("transactions", "list"),
        }

    async def _held(self, visit: Visit) -> Any:
        topics = await visit.admin.list_topics()
        places = [TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions]
        held = await _held_back(visit, places)
        producers = await visit.admin.describe_producers(held) if held else {}
        now_ms = OsClock().wall_ms()
        candidates = [
            (place, each)
            for place, some in producers.items()
            for each in (() if isinstance(some, KafkaError) else some)
            if each.open_since_offset is not None
        ]
        hanging = await _hanging(visit, candidates, now_ms)
        return {
            "held": [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "stable_offset": held[place][0],
                    "end": held[place][1],
                    "records": held[place][1] - held[place][0],
                    "producer_id": each.producer_id,
                    "since_offset": each.open_since_offset,
                    "silent_ms": max(0, now_ms - each.last_timestamp_ms),
                    "is_hanging": (place, each.producer_id) in hanging,
                }
                for place, each in candidates
            ],
            "command": visit.commands.line("transactions", "find-hanging"),
        }


async def _held_back(visit: Visit, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """The last stable offset and the end of partitions where they differ."""
    wanted = dict.fromkeys(places, int(OffsetSpec.LATEST))
    ends = await visit.admin.list_offsets(wanted) if wanted else {}
    stable = await visit.admin.list_offsets(wanted, read_committed=True) if wanted else {}
    held: dict[TopicPartition, tuple[int, int]] = {}
    for place, end in ends.items():
        last_stable = stable.get(place)
        if (
            isinstance(end, ListedOffset)
            and isinstance(last_stable, ListedOffset)
            and last_stable.offset < end.offset
        ):
            held[place] = last_stable.offset, end.offset
    return held


async def _hanging(
    visit: Visit, candidates: list[tuple[TopicPartition, ActiveProducer]], now_ms: int
) -> set[tuple[TopicPartition, int]]:
    silent = [each for each in candidates if now_ms - each[1].last_timestamp_ms > _SILENT_MS]
    if not silent:
        return set()
    listed = await visit.admin.list_transactions(producer_ids={each.producer_id for _, each in silent})
    described = (
        await visit.admin.describe_transactions([each.transactional_id for each in listed]) if listed else {}
    )
    return {
        (each.partition, each.producer.producer_id)
        for each in hanging_transactions(silent, listed, described)
    }


def _shown(found: TransactionDescription, now_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "is_open": found.is_unfinished,
        "producer_id": found.producer_id,
        "coordinator": found.coordinator,
        "age_ms": None
        if found.started_ms is None or not found.is_unfinished
        else max(0, now_ms - found.started_ms),
        "timeout_ms": None if found.is_two_phase else found.timeout_ms,
        "partitions": [f"{each.topic}-{each.partition}" for each in sorted(found.partitions)],
    }
