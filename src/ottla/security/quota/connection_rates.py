"""How many connections may be made: at a broker, at one of its listeners, from an address (KIP-612).

A broker or a listener beyond its rate accepts no connection for a while: new ones wait at its door. An address beyond
its rate has its connection closed, after a while, and neither the broker nor the listener counts such a connection.
No pause is longer than a window of the measurement. The listener of the brokers among themselves, if it is not the
only one, is not held up by the rate of the whole broker.
"""

from collections.abc import Mapping
from typing import Final

from ottla.security.quota.entities import ClientQuotas, ip_limit_of, plain_ip
from ottla.security.quota.token_bucket import TokenBucket, TokenBuckets

_WHOLE_BROKER: Final = ""


class ConnectionRates:
    """The rates of a broker. `own_listener` is the listener that the broker-wide rate does not hold up."""

    def __init__(self, burst_s: float, window_ms: int, own_listener: str | None = None) -> None:
        self._burst_s = burst_s
        self._window_ms = window_ms
        self._own_listener = own_listener
        self._rates: Mapping[str, int] = {}
        self._doors: dict[str, TokenBucket] = {}
        self._quotas: ClientQuotas = {}
        self._addresses: TokenBuckets[str] = TokenBuckets(burst_s)

    def configure(self, broker_rate: int | None, listener_rates: Mapping[str, int], now_ms: int) -> None:
        """Allow these connections per second at the broker (None is any number), and at listeners by their names."""
        whole = {} if broker_rate is None else {_WHOLE_BROKER: broker_rate}
        self._rates = {**whole, **listener_rates}
        self._doors = {name: door for name, door in self._doors.items() if name in self._rates}
        for name, rate in self._rates.items():
            if name in self._doors:
                self._doors[name].limit(rate, now_ms)
            else:
                self._doors[name] = TokenBucket(rate, self._burst_s, now_ms)

    def apply(self, quotas: ClientQuotas) -> None:
        """These quotas of addresses are in force from now on."""
        self._quotas = quotas

    def accept_delay_ms(self, listener: str, now_ms: int) -> int:
        """For how long no connection may be accepted at a listener now."""
        waits = (self._doors[name].wait_ms(now_ms) for name in self._doors_of(listener))
        return min(self._window_ms, max(waits, default=0))

    def connected(self, listener: str, ip: str, now_ms: int) -> int:
        """Account for a connection; the milliseconds after which it is to be closed, 0 if it may stay."""
        bucket = self._bucket_of(ip, now_ms)
        if bucket is not None and (wait_ms := bucket.take(1, now_ms)):
            bucket.give_back(1)
            return min(self._window_ms, wait_ms)
        for name in self._doors_of(listener):
            self._doors[name].take(1, now_ms)
        return 0

    def _doors_of(self, listener: str) -> list[str]:
        names = [listener] if listener == self._own_listener else [_WHOLE_BROKER, listener]
        return [name for name in names if name in self._doors]

    def _bucket_of(self, ip: str, now_ms: int) -> TokenBucket | None:
        if not self._quotas:
            return None
        address = plain_ip(ip) or ip
        rate = ip_limit_of(self._quotas, address)
        if rate is None:
            return None
        return self._addresses.find(address, rate, now_ms)
