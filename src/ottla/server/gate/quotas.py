"""How much clients may send and read: quotas by user and client id, as the cluster's metadata has them.

A request beyond its quota is carried out and answered at once, with the time for which its connection is muted: the
client's next requests stay unread for so long. A fetch beyond its quota is answered empty. Quotas count for each
broker by itself, as in Kafka. Followers and the metadata quorum have none.

A cluster without quotas pays for one look at `are_set`, once per read or fetch.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.config import QuotaConfig
from ottla.security.quota.entities import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    ClientQuotas,
    Limit,
    limit_of,
)
from ottla.security.quota.token_bucket import TokenBucket
from ottla.server.gate.session import Session

# Client ids come from clients: one that invents a new id with every connection must not fill the memory.
_MAX_REMEMBERED: Final = 10_000

_Client = tuple[str, str, str]
_Owner = tuple[str, str | None, str | None]


class Quotas:
    """The quotas of all sessions of a broker, and what they have used."""

    def __init__(self, config: QuotaConfig, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._now_ms = now_ms
        self._quotas: ClientQuotas = {}
        # Whether anybody has a quota.
        self.are_set = False
        self._limits: dict[_Client, Limit | None] = {}
        self._buckets: dict[_Owner, TokenBucket] = {}

    def apply(self, quotas: ClientQuotas) -> None:
        """Follow a change of metadata: these quotas are in force from now on."""
        if quotas is not self._quotas:
            self._quotas = quotas
            self._limits.clear()
            self.are_set = bool(quotas)

    def produced(self, session: Session, size_bytes: int) -> int:
        """Account for records; the milliseconds for which the session is muted now, 0 if its quota allows them."""
        bucket = self._bucket(session, PRODUCER_BYTE_RATE)
        if bucket is None:
            return 0
        throttle_ms = bucket.take(size_bytes, self._now_ms())
        if throttle_ms:
            self._mute(session, throttle_ms)
        return throttle_ms

    def fetched(self, session: Session, size_bytes: int) -> int:
        """Account for records that are about to leave; the milliseconds for which the session is muted now.

        If it is muted, the records must not leave, and do not count. What nobody has used up to now is never too
        little for one fetch: a batch that is larger than a quota's burst could not be read at all.
        """
        bucket = self._bucket(session, CONSUMER_BYTE_RATE)
        if bucket is None:
            return 0
        now_ms = self._now_ms()
        is_unused = bucket.is_full(now_ms)
        throttle_ms = bucket.take(size_bytes, now_ms)
        if not throttle_ms or is_unused:
            return 0
        bucket.give_back(size_bytes)
        self._mute(session, throttle_ms)
        return throttle_ms

    def most_fetched_bytes(self, session: Session) -> int | None:
        """The most that one fetch of a session should bring; None if there is no limit."""
        bucket = self._bucket(session, CONSUMER_BYTE_RATE)
        return None if bucket is None else max(1, int(bucket.capacity))

    def _bucket(self, session: Session, key: str) -> TokenBucket | None:
        """The bucket that a session takes from; None if it has no quota."""
        client = key, session.principal.name, session.client_id or ""
        if client not in self._limits:
            if len(self._limits) >= _MAX_REMEMBERED:
                self._limits.clear()
            self._limits[client] = limit_of(self._quotas, *client)
        limit = self._limits[client]
        return None if limit is None else self._bucket_of((key, *limit.owner), limit.rate)

    def _bucket_of(self, owner: _Owner, rate: float) -> TokenBucket:
        now_ms = self._now_ms()
        bucket = self._buckets.get(owner)
        if bucket is None:
            if len(self._buckets) >= _MAX_REMEMBERED:
                self._forget_unused(now_ms)
            bucket = self._buckets[owner] = TokenBucket(rate, self._config.burst_s, now_ms)
        elif bucket.rate != rate:
            bucket.limit(rate, now_ms)
        return bucket

    def _forget_unused(self, now_ms: int) -> None:
        """Forget full buckets, which a new one would equal; all of them if none is full."""
        used = {owner: bucket for owner, bucket in self._buckets.items() if not bucket.is_full(now_ms)}
        self._buckets = used if len(used) < _MAX_REMEMBERED else {}

    def _mute(self, session: Session, throttle_ms: int) -> None:
        until_ms = self._now_ms() + throttle_ms
        if session.throttled_until_ms is not None and session.throttled_until_ms >= until_ms:
            return
        session.is_throttled_until(until_ms)
        timer = asyncio.get_running_loop().call_later(throttle_ms / 1000, session.unmute, until_ms)
        session.call_when_closed("throttle", timer.cancel)
