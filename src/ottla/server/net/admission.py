"""How many connections a node keeps, over all listeners, at each of them, and of one address; and how many are made."""

from collections import Counter

from ottla.config import INT_MAX, BrokerConfig, ConnectionConfig
from ottla.config.listener_limits import MAX_CONNECTION_CREATION_RATE, MAX_CONNECTIONS, limits_by_listener
from ottla.runtime.clock import monotonic_ms
from ottla.security.quota.connection_rates import ConnectionRates


class Admission:
    """Counts open connections, and says when there are too many. The reasons of refusals are few: they are counted."""

    def __init__(self, config: BrokerConfig) -> None:
        node, quotas = config.node, config.quotas
        is_one_of_many = len(node.bound_listeners) > 1 and bool(node.voters)
        own_listener = node.advertised_listener.name if is_one_of_many else None
        self.rates = ConnectionRates(quotas.burst_s, quotas.window_ms, own_listener)
        self.connection_count = 0
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Take changed limits over; connections that are open stay."""
        self.limits: ConnectionConfig = config.connections
        self._listener_limits = limits_by_listener(config.listener_limits, MAX_CONNECTIONS)
        rate = self.limits.max_connection_creation_rate
        listener_rates = limits_by_listener(config.listener_limits, MAX_CONNECTION_CREATION_RATE)
        self.rates.configure(None if rate == INT_MAX else rate, listener_rates, monotonic_ms())

    def refusal(self, listener: str, ip: str) -> str | None:
        """Why one more connection from an address would be too many; None if it is not."""
        if self.connection_count >= self.limits.max_connections:
            return f"{self.connection_count} connections are open, the limit is max.connections"
        if self._per_listener[listener] >= self._listener_limits.get(listener, INT_MAX):
            limit = f"listener.name.{listener.lower()}.{MAX_CONNECTIONS}"
            return f"{self._per_listener[listener]} connections are open there, the limit is {limit}"
        if self._per_ip[ip] >= self.limits.max_connections_per_ip:
            return f"{self._per_ip[ip]} connections from there are open, the limit is max.connections.per.ip"
        return None

    def opened(self, listener: str, ip: str) -> None:
        """Count a connection."""
        self.connection_count += 1
        self._per_listener[listener] += 1
        self._per_ip[ip] += 1

    def closed(self, listener: str, ip: str) -> None:
        """A connection that was counted is gone."""
        self.connection_count -= 1
        self._per_listener[listener] -= 1
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
