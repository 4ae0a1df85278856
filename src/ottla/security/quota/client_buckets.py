"""The token buckets of clients, by the quota that is in force for each.

Clients that share a quota share a bucket.
"""

from typing import Final

from ottla.security.quota.entities import ClientQuotas, Limit, limit_of
from ottla.security.quota.token_bucket import TokenBucket, TokenBuckets

# Client ids come from clients: one that invents a new id with every connection must not fill the memory.
_MAX_REMEMBERED: Final = 10_000

_Client = tuple[str, str, str]
_Owner = tuple[str, str | None, str | None]


class ClientBuckets:
    """The buckets, each of which holds `burst_s` seconds' worth. Times are of one clock."""

    def __init__(self, burst_s: float) -> None:
        self._quotas: ClientQuotas = {}
        self._limits: dict[_Client, Limit | None] = {}
        self._buckets: TokenBuckets[_Owner] = TokenBuckets(burst_s)

    def apply(self, quotas: ClientQuotas) -> None:
        """These quotas are in force from now on. What was used up to now still counts."""
        if quotas is not self._quotas:
            self._quotas = quotas
            self._limits.clear()

    def find(self, key: str, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        """The bucket that a client takes from; None if it has no such quota."""
        client = key, user, client_id
        if client not in self._limits:
            if len(self._limits) >= _MAX_REMEMBERED:
                self._limits.clear()
            self._limits[client] = limit_of(self._quotas, *client)
        limit = self._limits[client]
        return None if limit is None else self._buckets.find((key, *limit.owner), limit.rate, now_ms)
