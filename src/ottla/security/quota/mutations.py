"""How many partitions a client may create and delete: `controller_mutation_rate` (KIP-599).

The active controller counts the partitions of each topic that CreateTopics, CreatePartitions and DeleteTopics are
about to change, one topic after the other. A client whose version knows THROTTLING_QUOTA_EXCEEDED gets that error for
each topic that comes when the quota is used up; the topic that uses it up is changed whole. The topics of an older
client are all changed, and the client is throttled.
"""

from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.security.quota.client_buckets import ClientBuckets
from ottla.security.quota.entities import CONTROLLER_MUTATION_RATE, ClientQuotas
from ottla.security.quota.token_bucket import TokenBucket


class Asker(NamedTuple):
    """On whose behalf something is changed: a user, and the id of the client."""

    user: str
    client_id: str


class MutationQuota:
    """The quota of one request. `throttle_ms` is for how long its client is to be throttled."""

    __slots__ = ("_bucket", "_is_strict", "_now_ms", "throttle_ms")

    def __init__(self, bucket: TokenBucket, now_ms: int, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.throttle_ms = 0

    def charge(self, partition_count: int) -> None:
        """Account for partitions that are about to be changed. KafkaError if they must not be."""
        if self._is_strict and (wait_ms := self._bucket.wait_ms(self._now_ms)):
            self.throttle_ms = wait_ms
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The quota {CONTROLLER_MUTATION_RATE} is used up: try again in {wait_ms} ms.",
            )
        wait_ms = self._bucket.take(partition_count, self._now_ms)
        if not self._is_strict:
            self.throttle_ms = wait_ms


class MutationQuotas:
    """The quotas of all clients, as the active controller counts them. A new controller begins with full buckets."""

    def __init__(self, burst_s: float) -> None:
        self._buckets: Final = ClientBuckets(burst_s)

    def of_request(
        self, quotas: ClientQuotas, asker: Asker, now_ms: int, *, is_strict: bool
    ) -> MutationQuota | None:
        """The quota of a client's request; None if the client has none."""
        self._buckets.apply(quotas)
        bucket = self._buckets.find(CONTROLLER_MUTATION_RATE, asker.user, asker.client_id, now_ms)
        return None if bucket is None else MutationQuota(bucket, now_ms, is_strict=is_strict)
