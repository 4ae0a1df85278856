"""Which brokers are still there: soft state of the active controller, gone with its leadership (CTL-1).

A heartbeat opens or renews a session. When the connection that carries a broker's heartbeats closes, the
broker has a short grace to come back: a process that died is noticed at once, a silent one when its session
ends. A controller that has just become active knows nothing yet and gives every broker a fresh session. If
this object had no event for half a session, this process was suspended, and no broker can be blamed: all of
them get that time back. `next_deadline_ms` comes at least four times a session, so that a process that runs
always has events.
"""

from collections.abc import Hashable, Mapping

from ottla.controller.image import ClusterImage


class BrokerLiveness:
    """Sessions of brokers. Times are of one clock that never goes back."""

    def __init__(self, session_timeout_ms: int, disconnect_grace_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._disconnect_grace_ms = disconnect_grace_ms
        self._told_ms: int | None = None  # None: not active
        self._deadlines_ms: dict[int, int] = {}
        self._connections: dict[int, Hashable] = {}  # of those heard: what carried the last heartbeat
        self._gone: set[int] = set()

    def activate(self, image: ClusterImage, now_ms: int, heard_ms: Mapping[int, int] | None = None) -> None:
        """Begin to watch: this controller has become the active one.

        `heard_ms` tells when brokers were last heard otherwise: a former controller was silent before it was replaced.
        It has a quarter of a session to show up, as one that was only cut off for a moment does at once.
        """
        self.deactivate()
        self._told_ms = now_ms
        deadline = now_ms + self._session_timeout_ms
        self._deadlines_ms = {broker.node_id: deadline for broker in image.live_brokers}
        soonest = now_ms + self._session_timeout_ms // 4
        for node_id, at_ms in (heard_ms or {}).items():
            if node_id in self._deadlines_ms:
                known = min(deadline, at_ms + self._session_timeout_ms)
                self._deadlines_ms[node_id] = max(soonest, known)

    def deactivate(self) -> None:
        """Forget everything: another controller watches now."""
        self._told_ms = None
        self._deadlines_ms.clear()
        self._connections.clear()
        self._gone.clear()

    def heard(self, broker_id: int, now_ms: int, connection: Hashable = None) -> None:
        """A heartbeat came."""
        if self._told_ms is None:
            return
        self._tell(now_ms)
        self._deadlines_ms[broker_id] = now_ms + self._session_timeout_ms
        self._connections[broker_id] = connection
        self._gone.discard(broker_id)

    def disconnected(self, broker_id: int, now_ms: int, connection: Hashable = None) -> None:
        """The connection closed, or could not be made. One that has been replaced by another does not
        matter.
        """
        if self._told_ms is None or self._connections.get(broker_id, connection) != connection:
            return
        self._tell(now_ms)
        deadline = now_ms + self._disconnect_grace_ms
        self._deadlines_ms[broker_id] = min(deadline, self._deadlines_ms.get(broker_id, deadline))
        self._gone.add(broker_id)

    def is_present(self, broker_id: int, now_ms: int) -> bool:
        """Whether a broker with this id is certainly there: another one cannot have the id."""
        is_heard = broker_id in self._connections and broker_id not in self._gone
        return is_heard and now_ms < self._deadlines_ms[broker_id]

    def expired(self, image: ClusterImage, now_ms: int) -> list[int]:
        """The brokers that have to be fenced. One that is not fenced soon is named again after a quarter
        session.
        """
        if self._told_ms is None:
            return []
        self._tell(now_ms)
        found = [node_id for node_id, deadline in self._sessions(image) if deadline <= now_ms]
        for node_id in found:
            self._gone.add(node_id)
            self._deadlines_ms[node_id] = now_ms + self._session_timeout_ms // 4
        return found

    def next_deadline_ms(self, image: ClusterImage) -> int | None:
        """When to ask for expired brokers again, unless something happens before; None while not active."""
        if self._told_ms is None:
            return None
        again_ms = self._told_ms + self._session_timeout_ms // 4
        return min((again_ms, *(deadline for _, deadline in self._sessions(image))))

    def unheard(self, image: ClusterImage) -> list[int]:
        """The brokers that have been silent since the activation: their connections should be checked."""
        if self._told_ms is None:
            return []
        known = self._connections.keys() | self._gone
        return [broker.node_id for broker in image.live_brokers if broker.node_id not in known]

    def _sessions(self, image: ClusterImage) -> list[tuple[int, int]]:
        """The sessions of the brokers that are not fenced yet. One of which nothing is known begins its
        session.
        """
        told_ms = self._told_ms or 0
        fresh = told_ms + self._session_timeout_ms
        return [
            (broker.node_id, self._deadlines_ms.setdefault(broker.node_id, fresh))
            for broker in image.live_brokers
        ]

    def _tell(self, now_ms: int) -> None:
        slept_ms = now_ms - (self._told_ms or 0)
        if slept_ms > self._session_timeout_ms // 2:
            for node_id in self._deadlines_ms:
                self._deadlines_ms[node_id] += slept_ms
        self._told_ms = max(now_ms, self._told_ms or 0)
