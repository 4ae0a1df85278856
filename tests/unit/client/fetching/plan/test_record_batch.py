from __future__ import annotations

from ottla.client.fetching.plan.record_batch import ConsumerRecord, OpenBatch, RecordBatch, joined, sliced
from ottla.model import TopicPartition
from ottla.records.decoding import RecordColumns
from ottla.records.record import Header

SOURCE = TopicPartition("t", 3)


def columns(*offsets: int, headers: list[tuple[Header, ...]] | None = None) -> RecordColumns:
    return RecordColumns(
        offsets,
        [1_000 + offset for offset in offsets],
        [None] * len(offsets),
        [b"%d" % offset for offset in offsets],
        headers,
    )


def batch(*offsets: int, headers: list[tuple[Header, ...]] | None = None) -> RecordBatch:
    return RecordBatch(
        SOURCE, columns(*offsets, headers=headers), next_offset=offsets[-1] + 3, leader_epoch=7
    )


def record(offset: int, headers: tuple[Header, ...] = ()) -> ConsumerRecord:
    return ConsumerRecord("t", 3, offset, 1_000 + offset, None, b"%d" % offset, headers)


def test_a_batch_has_columns_and_records() -> None:
    made = batch(4, 5, 9)
    assert (made.topic, made.partition, made.topic_partition, made.next_offset) == ("t", 3, SOURCE, 12)
    assert (list(made.offsets), list(made.timestamps_ms)) == ([4, 5, 9], [1_004, 1_005, 1_009])
    assert (list(made.keys), list(made.values)) == ([None] * 3, [b"4", b"5", b"9"])
    assert list(made.headers) == [(), (), ()]
    assert list(made) == [record(4), record(5), record(9)]
    assert (made[1], made[-1], len(made)) == (record(5), record(9), 3)
    assert repr(made) == "RecordBatch(t-3, 3 records up to offset 12)"


def test_records_have_their_headers() -> None:
    made = batch(4, 5, headers=[(("a", b"1"),), ()])
    assert list(made) == [record(4, (("a", b"1"),)), record(5)]
    assert made[0].headers == (("a", b"1"),)
    assert list(sliced(columns(4, 5, headers=[(("a", b"1"),), ()]), 0, 1).headers or []) == [(("a", b"1"),)]


def test_batches_that_follow_each_other_become_one() -> None:
    one = joined([batch(1, 2), batch(5, headers=[(("a", None),)])])
    assert list(one) == [record(1), record(2), record(5, (("a", None),))]
    assert one.next_offset == 8
    alone = batch(1)
    assert joined([alone]) is alone


def test_an_open_batch_knows_how_far_it_was_handed_out() -> None:
    opened = OpenBatch(SOURCE, columns(4, 5, 9), next_offset=12, leader_epoch=7)
    assert (opened.left, opened.position, opened.last_offset) == (3, None, None)
    assert next(opened.records) == record(4)
    assert (opened.left, opened.position, opened.last_offset) == (2, 5, 4)
    assert opened.take(1) == [record(5)]
    assert (opened.left, opened.position, opened.last_offset) == (1, 6, 5)
    assert opened.take(5) == [record(9)]
    assert (opened.left, opened.position, opened.last_offset) == (0, 12, 9)


def test_an_open_batch_can_be_handed_out_as_batches() -> None:
    opened = OpenBatch(SOURCE, columns(4, 5, 9), next_offset=12, leader_epoch=7)
    opened.take(1)
    first, rest = opened.split(1)
    assert (list(first), first.next_offset) == ([record(5)], 6)
    assert rest is not None
    last, nothing = rest.split(9)
    assert (list(last), last.next_offset, last.leader_epoch, nothing) == ([record(9)], 12, 7, None)
