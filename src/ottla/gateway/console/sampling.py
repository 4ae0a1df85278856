"""Asks for rates and lag while somebody looks, and for three hours after.

Each login is sampled with its own clients, and sees only what was sampled for it: nobody learns more than the
cluster's access control lists allow. The first sample is taken when a user first asks. The pause is fifteen seconds,
or ten times as long as a sample takes, three minutes at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from itertools import count
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import KafkaError
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.console.machine.history import History, Sample
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.model import TopicPartition
from ottla.runtime.clock import OsClock, monotonic_ms

logger = logging.getLogger(__name__)

_PAUSE_MS: Final = 15_000
# At first faster, so that whoever has just come sees a rate.
_FIRST_PAUSE_MS: Final = 4_000
_FIRST_SAMPLES: Final = 8
_SHARE: Final = 10
_MOST_PAUSE_MS: Final = 180_000
_LOOKED_AT_MS: Final = 3 * 3_600_000
# Logins that are sampled at once: each costs its samples and a few megabytes.
_MOST_LOGINS: Final = 16
_MOST_GROUPS: Final = 500


@dataclass(slots=True)
class _Watch:
    history: History
    task: asyncio.Task[None]
    looked_ms: float

    def look(self, now_ms: float) -> None:
        self.looked_ms = now_ms


class Sampler:
    """The histories of all logins that look."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool
        self._watches: dict[Login | None, _Watch] = {}

    def history(self, login: Login | None) -> History:
        """What was sampled for a login; sampling begins, or goes on, because somebody looks."""
        watch = self._watches.get(login)
        if watch is None:
            self._make_room()
            history = History()
            task = asyncio.get_running_loop().create_task(self._sample(login, history))
            self._watches[login] = watch = _Watch(history, task, monotonic_ms())
        watch.look(monotonic_ms())
        return watch.history

    async def close(self) -> None:
        """End all sampling."""
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch.task

    def _make_room(self) -> None:
        if len(self._watches) >= _MOST_LOGINS:
            oldest = min(self._watches, key=lambda login: self._watches[login].looked_ms)
            self._watches.pop(oldest).task.cancel()

    async def _sample(self, login: Login | None, history: History) -> None:
        for taken in count():
            began_ms = monotonic_ms()
            try:
                async with self._pool.caller(login) as caller:
                    history.add(await take_sample(await caller.clients.admin(), OsClock().wall_ms()))
            except (KafkaError, HttpError, OSError) as error:
                logger.debug("rates and lag could not be asked for: %s", error)
            took_ms = monotonic_ms() - began_ms
            pause_ms = _FIRST_PAUSE_MS if taken < _FIRST_SAMPLES else _PAUSE_MS
            await asyncio.sleep(min(max(pause_ms, took_ms * _SHARE), _MOST_PAUSE_MS) / 1000)
            watch = self._watches.get(login)
            if watch is None or monotonic_ms() - watch.looked_ms > _LOOKED_AT_MS:
                self._watches.pop(login, None)
                return


async def take_sample(admin: Admin, now_ms: int) -> Sample:
    """The end offsets of all topics and the lag of all groups that the user may see."""
    topics = await admin.list_topics()
    places = [TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions]
    listed = await admin.list_offsets(dict.fromkeys(places, int(OffsetSpec.LATEST))) if places else {}
    known = {place: each.offset for place, each in listed.items() if isinstance(each, ListedOffset)}
    ends: dict[str, int] = {}
    for place, offset in known.items():
        ends[place.topic] = ends.get(place.topic, 0) + offset
    lags = await group_lags(
        admin, [each.group_id for each in (await admin.list_groups())[:_MOST_GROUPS]], known
    )
    return Sample(now_ms, ends, lags)


async def group_lags(admin: Admin, group_ids: list[str], ends: dict[TopicPartition, int]) -> dict[str, int]:
    """The lag of groups in records; groups that the user may not see are left out."""
    lags: dict[str, int] = {}
    for group_id in group_ids:
        try:
            committed = await admin.list_group_offsets(group_id)
        except KafkaError:
            continue
        lags[group_id] = sum(
            max(0, ends[place] - each.offset)
            for place, each in committed.items()
            if isinstance(each, CommittedOffset) and place in ends
        )
    return lags
