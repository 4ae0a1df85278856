"""Expiry of offsets, and of groups that are no longer used (KIP-211).

    group                               an offset is kept until
    empty                               the retention time after the group became empty, or after its commit if that is later
    stable, consumers                   for ever if a member subscribes to its topic; else the retention time after its commit
    rebalancing, or of another type     for ever
    never had members                   the retention time after its commit
An offset with an expiry of its own (OffsetCommit up to version 4) is kept until then, where it would not be kept for ever.
Pending offsets are never forgotten. An empty group without offsets is forgotten itself.
Kafka does not look at the commit of an empty group's offset, so that an offset which an admin sets after a long time is
gone again at the next check; here it lives as long as any other.
"""

from __future__ import annotations

from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import Turn
from ottla.group.offsets import tombstones
from ottla.group.records import NO_EXPIRY, OffsetCommitValue, group_record


def forget_expired(group: ClassicGroup, turn: Turn) -> bool:
    """Forget what is due of one group; whether nothing is left that must be kept."""
    expired = [
        (topic, partition)
        for topic, partition, value in group.offsets.items()
        if _is_expired(group, topic, value, turn) and not group.offsets.is_pending(topic, partition)
    ]
    turn.records.extend(tombstones(group, expired))
    has_offsets = group.offsets.has_pending or len(expired) < group.offsets.count
    if has_offsets or group.state is not GroupState.EMPTY or group.pending:
        return False
    if group.recorded is not None:
        turn.records.append(group_record(group.group_id, None))
        turn.notes.append(f"group '{group.group_id}' is forgotten: it has no members and no offsets")
    return True


def _is_expired(group: ClassicGroup, topic: str, value: OffsetCommitValue, turn: Turn) -> bool:
    if group.state is GroupState.EMPTY:
        since_ms = max(group.state_timestamp_ms, value.commit_timestamp)
    elif group.state is GroupState.STABLE and _is_unsubscribed(group, topic):
        since_ms = value.commit_timestamp
    else:
        return False
    if value.expire_timestamp != NO_EXPIRY:
        return turn.now_ms >= value.expire_timestamp
    return turn.now_ms - since_ms >= turn.settings.offsets_retention_ms


def _is_unsubscribed(group: ClassicGroup, topic: str) -> bool:
    return (
        group.uses_consumer_protocol
        and group.subscribed_topics is not None
        and topic not in group.subscribed_topics
    )
