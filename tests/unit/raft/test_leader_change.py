"""The record with which an epoch begins."""

from __future__ import annotations

from ottla.protocol.codec import decode
from ottla.raft.events import AppendLeaderChange
from ottla.raft.leader_change import LeaderChangeMessage, LeaderChangeVoter, leader_change_batch
from ottla.records.batch import BatchView
from ottla.records.control import ControlRecordType, control_type_of


def test_it_is_a_control_batch_that_names_the_leader_and_who_voted_for_it() -> None:
    batch = BatchView(leader_change_batch(AppendLeaderChange(7, 2, (1, 2, 3), (2, 3)), 1_700_000_000_000))
    assert batch.is_control
    assert batch.crc_is_valid()
    assert batch.partition_leader_epoch == 7
    (record,) = batch.records()
    assert control_type_of(record.key) is ControlRecordType.LEADER_CHANGE
    message = decode(LeaderChangeMessage, record.value or b"", 0)
    assert message == LeaderChangeMessage(
        0,
        2,
        [LeaderChangeVoter(1), LeaderChangeVoter(2), LeaderChangeVoter(3)],
        [LeaderChangeVoter(2), LeaderChangeVoter(3)],
    )
