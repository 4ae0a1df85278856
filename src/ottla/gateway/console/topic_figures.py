"""Records and bytes of topics, as far as the caller may ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import KafkaError
from ottla.gateway.http.machine.credentials import Login
from ottla.model import TopicPartition
from ottla.runtime.clock import monotonic_ms

# Brokers answer with every partition that they have: a page that is looked at again and again shall not ask each time.
_REMEMBERED_MS: Final = 10_000
_MOST_REMEMBERED: Final = 64
_LIST_REMEMBERED_MS: Final = 5_000
_MANY_TOPICS: Final = 500


@dataclass(frozen=True, slots=True)
class Ends:
    """The first offset of a partition, and the one behind its last record."""

    start: int
    end: int


async def ends_of(admin: Admin, places: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
    """The ends of partitions; those that cannot be asked now are left out."""
    wanted = list(places)
    if not wanted:
        return {}
    first, last = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(wanted, int(OffsetSpec.EARLIEST))),
        admin.list_offsets(dict.fromkeys(wanted, int(OffsetSpec.LATEST))),
    )
    starts, stops = _offsets(first), _offsets(last)
    return {each: Ends(starts[each], stops[each]) for each in wanted if each in starts and each in stops}


def _offsets(listed: Mapping[TopicPartition, ListedOffset | KafkaError]) -> dict[TopicPartition, int]:
    return {place: found.offset for place, found in listed.items() if isinstance(found, ListedOffset)}


class TopicLists:
    """All topics, remembered for a moment by login: whoever turns pages, or types a search, asks once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Login | None, bool], tuple[float, list[TopicInfo]]] = {}

    async def of(self, admin: Admin, login: Login | None, *, internal: bool) -> list[TopicInfo]:
        known = self._known.get((login, internal))
        if known is not None and monotonic_ms() < known[0]:
            return known[1]
        found = await admin.list_topics(include_internal=internal)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        # A small cluster answers at once, and shows what has just been created.
        remembered_ms = 0 if len(found) < _MANY_TOPICS else _LIST_REMEMBERED_MS
        self._known[login, internal] = monotonic_ms() + remembered_ms, found
        return found


class LogSizes:
    """The bytes of every partition on every broker, remembered for a moment by login."""

    def __init__(self) -> None:
        self._known: dict[Login | None, tuple[float, dict[TopicPartition, dict[int, int]]]] = {}

    async def of(self, admin: Admin, login: Login | None) -> dict[TopicPartition, dict[int, int]]:
        """Bytes by partition and broker; what brokers do not tell is left out."""
        known = self._known.get(login)
        if known is not None and monotonic_ms() < known[0]:
            return known[1]
        found: dict[TopicPartition, dict[int, int]] = {}
        for node_id, directories in (await admin.describe_log_dirs()).items():
            for directory in () if isinstance(directories, KafkaError) else directories:
                for place, log in directory.replicas.items():
                    if not log.is_future:
                        found.setdefault(place, {})[node_id] = log.size_bytes
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[login] = monotonic_ms() + _REMEMBERED_MS, found
        return found
