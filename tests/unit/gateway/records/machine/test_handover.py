"""Records that were read, handed out, and done with."""

from __future__ import annotations

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.records.machine.handover import Handover
from ottla.model import TopicPartition

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def record(offset: int, partition: int = 0, size: int = 10) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, None, b"x" * size, ())


def test_records_are_done_when_the_caller_asks_for_more() -> None:
    handover = Handover()
    handover.read([record(0), record(1), record(5)])
    assert [each.offset for each in handover.hand_out(20)] == [0, 1]
    assert (handover.handed, handover.done) == ({PLACE: 2}, {})
    handover.confirm()
    assert handover.done == {PLACE: 2}
    assert [each.offset for each in handover.hand_out(1)] == [5]
    assert (handover.handed, handover.done) == ({PLACE: 6}, {PLACE: 2})
    assert not handover.has_waiting


def test_records_that_were_not_sent_wait_again() -> None:
    handover = Handover()
    handover.read([record(0), record(1)])
    before = handover.handed
    handover.take_back(handover.hand_out(100), before)
    assert handover.handed == {}
    assert [each.offset for each in handover.hand_out(100)] == [0, 1]


def test_a_partition_that_goes_takes_its_records_along() -> None:
    handover = Handover()
    handover.read([record(0), record(0, 1)])
    handover.hand_out(1)
    handover.confirm()
    handover.drop([PLACE])
    assert (handover.handed, handover.done) == ({}, {})
    assert [each.partition for each in handover.hand_out(100)] == [1]
    assert handover.handed == {OTHER: 1}
