"""The record with which a leader's epoch begins: a control batch of its own, in Kafka's format."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import ZERO_UUID, Int16, Int32, Uuid, encode, record, since, struct
from ottla.raft.events import AppendLeaderChange
from ottla.records.builder import build_batch
from ottla.records.control import ControlRecordType, control_key
from ottla.records.record import Record

_VERSION: Final = 0  # version 1 names the voters' directories, which a fixed set of voters does not know


@struct
class LeaderChangeVoter:
    voter_id: Int32 = 0
    voter_directory_id: Annotated[Uuid, since(1)] = ZERO_UUID


@record(key=2, versions=(0, 1), flexible=0)
class LeaderChangeMessage:
    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[LeaderChangeVoter] = field(default_factory=list)
    granting_voters: list[LeaderChangeVoter] = field(default_factory=list)


def leader_change_batch(effect: AppendLeaderChange, timestamp_ms: int) -> bytearray:
    """The batch to append; the log gives it its offset and its epoch."""
    message = LeaderChangeMessage(
        version=_VERSION,
        leader_id=effect.leader_id,
        voters=[LeaderChangeVoter(voter) for voter in effect.voters],
        granting_voters=[LeaderChangeVoter(voter) for voter in effect.granting_voters],
    )
    key = control_key(ControlRecordType.LEADER_CHANGE)
    value = bytes(encode(message, _VERSION))
    return build_batch(
        [Record(0, timestamp_ms, key, value)], is_control=True, partition_leader_epoch=effect.epoch
    )
