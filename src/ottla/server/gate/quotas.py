"""How much clients may send, read and keep the broker busy: quotas by user and client id, as the cluster's metadata has
them.

A request beyond its quota is carried out and answered at once, with the time for which its connection is muted: the
client's next requests stay unread for so long. A fetch beyond its quota is answered empty. Quotas count for each
broker by itself, as in Kafka. Followers and the metadata quorum have none.

Request time (`request_percentage`) is the time of the broker's loop that a client's requests take, in percent of the
loop: reading, decoding, handling and sending, and not waiting. What was used up to an answer counts for the throttle
time of this answer; what sending takes counts for the next, as network threads' time does in Kafka.

A cluster without quotas pays for one look at `are_set` or `limits_time`, once per read or fetch.
"""

import asyncio
from collections.abc import Callable

from ottla.config import QuotaConfig
from ottla.runtime.clock import monotonic_s
from ottla.security.quota.client_buckets import ClientBuckets
from ottla.security.quota.entities import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
)
from ottla.security.quota.token_bucket import TokenBucket
from ottla.server.gate.session import Session


class Quotas:
    """The quotas of all sessions of a broker, and what they have used."""

    def __init__(
        self, config: QuotaConfig, now_ms: Callable[[], int], now_s: Callable[[], float] = monotonic_s
    ) -> None:
        self._window_ms = config.window_ms
        self._now_ms = now_ms
        self._now_s = now_s
        self._quotas: ClientQuotas = {}
        self._buckets = ClientBuckets(config.burst_s)
        # When the work began that the loop does now; it does one thing at a time.
        self._began_s: float | None = None
        # Whether anybody has a quota, and whether anybody has one of request time.
        self.are_set = False
        self.limits_time = False
        # How often sessions were muted since the start, and for how long altogether.
        self.throttles = 0
        self.throttled_ms = 0

    def apply(self, quotas: ClientQuotas) -> None:
        """Follow a change of metadata: these quotas are in force from now on."""
        if quotas is not self._quotas:
            self._quotas = quotas
            self._buckets.apply(quotas)
            self.are_set = bool(quotas)
            self.limits_time = any(REQUEST_PERCENTAGE in values for values in quotas.values())

    def produced(self, session: Session, size_bytes: int) -> int:
        """Account for records; the milliseconds for which the session is muted now, 0 if its quota allows them."""
        session.speaks_for_node(False)
        bucket = self._bucket(session, PRODUCER_BYTE_RATE)
        throttle_ms = 0 if bucket is None else bucket.take(size_bytes, self._now_ms())
        return max(throttle_ms and self.mute(session, throttle_ms), self.worked(session))

    def fetched(self, session: Session, size_bytes: int) -> int:
        """Account for records that are about to leave; the milliseconds for which the session is muted now.

        If it is muted, the records must not leave, and do not count. What nobody has used up to now is never too
        little for one fetch: a batch that is larger than a quota's burst could not be read at all.
        """
        time_ms = self.worked(session)
        bucket = self._bucket(session, CONSUMER_BYTE_RATE)
        if bucket is None:
            return time_ms
        now_ms = self._now_ms()
        is_unused = bucket.is_full(now_ms)
        throttle_ms = bucket.take(size_bytes, now_ms)
        if is_unused:
            throttle_ms = 0
        if throttle_ms or time_ms:
            bucket.give_back(size_bytes)
        return max(time_ms, throttle_ms and self.mute(session, throttle_ms))

    def most_fetched_bytes(self, session: Session) -> int | None:
        """The most that one fetch of a session should bring; None if there is no limit."""
        bucket = self._bucket(session, CONSUMER_BYTE_RATE)
        return None if bucket is None else max(1, int(bucket.capacity))

    def begin_work(self) -> None:
        """The loop turns to a connection."""
        self._began_s = self._now_s()

    def worked(self, session: Session) -> int:
        """Account for the time since the work began; the milliseconds for which the session is muted now."""
        if not self.limits_time:
            return 0
        throttle_ms = min(self._window_ms, self._spend(session))
        return throttle_ms and self.mute(session, throttle_ms)

    def end_work(self, session: Session) -> None:
        """The loop turns away from a connection: what the end of the work took counts for its next request."""
        self._spend(session)
        self._began_s = None

    def mute(self, session: Session, throttle_ms: int) -> int:
        """Have no further request of a session handled for a time, which is the answer."""
        self.throttles += 1
        self.throttled_ms += throttle_ms
        until_ms = self._now_ms() + throttle_ms
        if session.throttled_until_ms is None or session.throttled_until_ms < until_ms:
            session.is_throttled_until(until_ms)
            timer = asyncio.get_running_loop().call_later(throttle_ms / 1000, session.unmute, until_ms)
            session.call_when_closed("throttle", timer.cancel)
        return throttle_ms

    def _spend(self, session: Session) -> int:
        """Take the time since the work began from the session's quota; the milliseconds until its debt is paid."""
        began_s = self._began_s
        if began_s is None:
            return 0
        self._began_s = now_s = self._now_s()
        bucket = None if session.is_of_node else self._bucket(session, REQUEST_PERCENTAGE)
        return 0 if bucket is None else bucket.take(100 * (now_s - began_s), self._now_ms())

    def _bucket(self, session: Session, key: str) -> TokenBucket | None:
        """The bucket that a session takes from; None if it has no quota."""
        return self._buckets.find(key, session.principal.name, session.client_id or "", self._now_ms())
