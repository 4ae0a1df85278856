"""One partition as its leader sees it: who leads, who is in sync, how far readers may read. Pure.

    event                 effect
    Assigned              (state replaced; leader epoch never goes back)
    LogEndOffsetMoved     HighWatermarkAdvanced, when the ISR agrees

The hot path does not go through events: `append_error`, `fetch_error` and `readable_up_to` answer a value.
With one replica the high watermark is the log end offset; followers join with the cluster.
"""

from dataclasses import dataclass

from ottla.errors import ErrorCode

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_EPOCH = -1
ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class Assigned:
    """What the controller decided about this partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogEndOffsetMoved:
    """The local log grew or was cut."""

    log_end_offset: int


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Readers may now read up to here."""

    high_watermark: int


Event = Assigned | LogEndOffsetMoved
Effect = HighWatermarkAdvanced


class PartitionReplica:
    """The replica of a partition that lives on `node_id`."""

    __slots__ = ("high_watermark", "isr", "leader", "leader_epoch", "node_id", "replicas")

    def __init__(self, node_id: int, high_watermark: int) -> None:
        self.node_id = node_id
        self.leader = NO_EPOCH
        self.leader_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.high_watermark = high_watermark

    @property
    def is_leader(self) -> bool:
        """Whether this node may append and answer readers."""
        return self.leader == self.node_id

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; answer what should happen."""
        match event:
            case Assigned():
                return self._assigned(event)
            case LogEndOffsetMoved(log_end_offset):
                return self._log_end_offset_moved(log_end_offset)

    def append_error(self, acks: int, min_insync_replicas: int) -> ErrorCode:
        """Why an append must be refused, or NONE."""
        if self.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == ACKS_ALL and len(self.isr) < min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def fetch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Why a read must be refused, or NONE. The epoch is judged before the leadership (PROTOCOL.md 29)."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.leader == self.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def readable_up_to(self, isolation_level: int, first_unstable_offset: int | None) -> int:
        """The offset before which this reader may read: high watermark, or last stable offset."""
        if isolation_level == READ_COMMITTED and first_unstable_offset is not None:
            return min(self.high_watermark, first_unstable_offset)
        return self.high_watermark

    def _assigned(self, event: Assigned) -> list[Effect]:
        if event.leader_epoch < self.leader_epoch:
            return []
        self.leader = event.leader
        self.leader_epoch = event.leader_epoch
        self.isr = event.isr
        self.replicas = event.replicas
        return []

    def _log_end_offset_moved(self, log_end_offset: int) -> list[Effect]:
        # The leader's own log is the only one there is: what it holds, the whole ISR holds.
        if self.is_leader and len(self.isr) == 1 and log_end_offset > self.high_watermark:
            self.high_watermark = log_end_offset
            return [HighWatermarkAdvanced(log_end_offset)]
        return []
