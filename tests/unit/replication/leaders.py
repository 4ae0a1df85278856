"""Leaders of a partition on node 1, with followers 2 and 3."""

from ottla.replication.events import Assigned, Effect, FollowerFetched
from ottla.replication.isr import ProposeIsr
from ottla.replication.partition import PartitionReplica

LEADER_EPOCH = 4
LAG_MS = 1000


def assigned(
    *,
    leader: int = 1,
    leader_epoch: int = LEADER_EPOCH,
    partition_epoch: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    log_end_offset: int = 0,
) -> Assigned:
    """Node 1 leads and all are in sync, but for what is said."""
    return Assigned(
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        replicas=replicas,
        log_end_offset=log_end_offset,
    )


def leader(
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 1,
    log_end_offset: int = 0,
    now_ms: int = 0,
    min_insync_replicas: int = 1,
) -> PartitionReplica:
    """Node 1, since `now_ms`."""
    replica = PartitionReplica(
        node_id=1,
        high_watermark=0,
        replica_lag_time_max_ms=LAG_MS,
        min_insync_replicas=min_insync_replicas,
    )
    event = assigned(
        isr=isr, replicas=replicas, partition_epoch=partition_epoch, log_end_offset=log_end_offset
    )
    replica.step(event, now_ms)
    return replica


def fetched(replica_id: int, offset: int, broker_epoch: int = 7) -> FollowerFetched:
    """A fetch in one line."""
    return FollowerFetched(replica_id, broker_epoch, offset)


def proposals(effects: list[Effect]) -> list[ProposeIsr]:
    """The proposals to the controller."""
    return [effect for effect in effects if isinstance(effect, ProposeIsr)]
