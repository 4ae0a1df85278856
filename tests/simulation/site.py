"""What the nodes of one simulated cluster share, how fast time runs for them, and what they say to each other.

Everything is about ten times faster than in a real cluster, so that a story of five seconds has many failures in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from tests.simulation.cluster import Cluster
from tests.simulation.raft_node import World
from tests.simulation.wire import Wire

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode
from ottla.raft.messages import SnapshotId
from ottla.replication.follower import FetchFrom

if TYPE_CHECKING:
    from tests.simulation.broker_log import Batch, ReplicaLog
    from tests.simulation.cluster_checks import ClusterChecks
    from tests.simulation.node import Node

CLUSTER_ID: Final = "simulated"
# A decision's records are values of the metadata log: its number, and which record of it.
RECORD_BITS: Final = 12


def is_joined(value: int) -> bool:
    """Whether a record of the metadata log is not the first of its decision."""
    return value > 0 and value & ((1 << RECORD_BITS) - 1) != 0


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, or may take. These are for stories: a tenth of what brokers have by default."""

    heartbeat_ms: int = 40
    session_ms: int = 300
    disconnect_grace_ms: int = 15
    lag_time_max_ms: int = 250
    fetch_wait_ms: int = 60
    request_timeout_ms: int = 150
    retry_ms: int = 15
    tick_ms: int = 40  # how often partitions look at the time
    watch_ms: int = 15  # how often the active controller looks whose session is over
    balance_ms: int = 300
    checkpoint_ms: int = 200
    shutdown_ms: int = 250


class TopicPartition(NamedTuple):
    """A partition of one topic; a topic of the same name, created anew, is another."""

    topic_id: UUID
    partition_id: int

    def __repr__(self) -> str:
        return f"{str(self.topic_id)[:8]}-{self.partition_id}"


# ---- what is asked, beside the protocol's own messages


class Forwarded(NamedTuple):
    """A command for the active controller."""

    command: Any


class Probe(NamedTuple):
    """Is anybody there?"""


class AskMetadata(NamedTuple):
    """Who leads what? The answer: (leader, leader epoch) by partition."""


class Outgoing(NamedTuple):
    """A batch of a client."""

    producer_id: int
    base_sequence: int
    values: tuple[int, ...]


class Produce(NamedTuple):
    """Batches for one partition, in their order. The answer: for each, its error and its base offset."""

    partition: TopicPartition
    acks: int
    batches: tuple[Outgoing, ...]


class Produced(NamedTuple):
    error: ErrorCode
    base_offset: int = -1


class Consume(NamedTuple):
    """What a consumer asks for."""

    partition: TopicPartition
    offset: int
    leader_epoch: int


class Consumed(NamedTuple):
    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    batches: tuple[Batch, ...] = ()


class Replicate(NamedTuple):
    """A follower's fetch: everything that it follows this leader for. The answer: FetchAnswered for each."""

    replica_id: int
    broker_epoch: int
    partitions: tuple[tuple[TopicPartition, FetchFrom], ...]


Trace = Callable[[int, str, Any], None]


@dataclass(slots=True)
class Site:
    """One cluster: its machines are in `nodes`, what they decided in `decisions`."""

    cluster: Cluster
    raft: World
    wire: Wire
    checks: ClusterChecks
    config: BrokerConfig
    timing: Timing
    flushes: bool  # ottla.flush.on.acks.all: what is committed is flushed wherever it counts
    is_coded: bool  # metadata records go through their bytes
    balances: bool  # the controller moves leaderships back by itself
    on_death: Callable[[Node, bool], None]
    new_log: Callable[[], ReplicaLog]
    nodes: dict[int, Node] = field(default_factory=dict)
    decisions: list[list[Any]] = field(default_factory=list)
    snapshots: dict[SnapshotId, list[Any]] = field(default_factory=dict)
    flush_us: tuple[int, int] = (100, 3_000)
    trace: Trace | None = None
    uuid_count: int = 1 << 20

    def new_uuid(self) -> UUID:
        """An id that is different each time, and the same whenever the story is told again."""
        self.uuid_count += 1
        return UUID(int=self.uuid_count << 96 | 4 << 76 | 8 << 60)
