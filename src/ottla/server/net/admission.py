"""How many connections a node keeps, over all listeners, and how many of one address."""

from collections import Counter

from ottla.config import ConnectionConfig


class Admission:
    """Counts open connections by address, and says when there are too many."""

    def __init__(self, limits: ConnectionConfig) -> None:
        self.limits = limits
        self.connection_count = 0
        self._per_ip: Counter[str] = Counter()

    def configure(self, limits: ConnectionConfig) -> None:
        """Take changed limits over; connections that are open stay."""
        self.limits = limits

    def refusal(self, ip: str) -> str | None:
        """Why one more connection from an address would be too many; None if it is not."""
        if self.connection_count >= self.limits.max_connections:
            return f"{self.connection_count} connections are open, the limit is max.connections"
        if self._per_ip[ip] >= self.limits.max_connections_per_ip:
            return f"{self._per_ip[ip]} connections from there are open, the limit is max.connections.per.ip"
        return None

    def opened(self, ip: str) -> None:
        """Count a connection."""
        self.connection_count += 1
        self._per_ip[ip] += 1

    def closed(self, ip: str) -> None:
        """A connection that was counted is gone."""
        self.connection_count -= 1
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
