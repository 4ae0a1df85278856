"""The producer's batches: when they are sent, retried, split and given up (PRO-2, PRO-3)."""

from __future__ import annotations

import pytest
from tests.unit.client.producing import Driven, numbers, values, view

from ottla.client.producer.machine.accumulator import ROOM_STEP_BYTES
from ottla.client.producer.machine.batch_answers import Answer
from ottla.client.producer.machine.delivery_report import (
    BufferFullError,
    DeliveryError,
    DeliveryReport,
    Failure,
    ProducerRecord,
)
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.partition_queue import NEVER
from ottla.client.producer.machine.partitioners import TopicPartitions, by_key, round_robin
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.compression import Compression

FAILED = Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "it is over")


def test_records_join_the_open_batch_of_their_partition_in_order() -> None:
    driven = Driven(partitions=2)
    first = driven.append(b"a")
    assert driven.append(b"b") is first
    assert driven.append(b"c", partition=1) is not first
    driven.now_ms += 5
    batches = driven.take()
    assert [(batch.partition.partition, values(batch)) for batch in batches] == [
        (0, [b"a", b"b"]),
        (1, [b"c"]),
    ]


def test_a_batch_waits_for_linger_and_says_when_it_is_due() -> None:
    driven = Driven(linger_ms=5)
    driven.append()
    assert driven.dues == [1_005.0]
    assert driven.take() == []
    assert driven.accumulator.due_ms == 1_005.0
    driven.now_ms = 1_005.0
    assert len(driven.take()) == 1


def test_a_batch_that_is_full_is_sent_at_once_and_the_record_that_did_not_fit_begins_the_next() -> None:
    driven = Driven(batch_size=400)
    first = driven.append(b"x" * 200)
    second = driven.append(b"y" * 200)
    assert second is not first
    assert driven.dues == [1_005.0, 1_000.0]
    assert driven.accumulator.turns == 1
    assert driven.take() == [first]
    driven.now_ms += 5
    assert driven.take() == [second]


def test_a_record_larger_than_a_batch_has_one_for_itself() -> None:
    driven = Driven(batch_size=400)
    driven.append(b"a")
    large = driven.append(b"x" * 1_000)
    after = driven.append(b"b")
    assert len({large, after}) == 2
    driven.now_ms += 5
    sent = [values(batch) for _ in range(3) for batch in driven.take()]
    assert sent == [[b"a"], [b"x" * 1_000], [b"b"]]


def test_a_record_larger_than_a_request_is_refused_with_both_sizes() -> None:
    driven = Driven(max_request_size=1_000)
    with pytest.raises(DeliveryError, match="takes 1021 bytes: max_request_size allows 1000") as caught:
        driven.append(b"x" * 1_000)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert caught.value.record == ProducerRecord("t", b"x" * 1_000, None, 0, (), 9)
    assert driven.buffered_bytes == 0


def test_a_full_buffer_refuses_records_until_something_is_delivered() -> None:
    driven = Driven(batch_size=1_000, buffer_memory=3_000, max_request_size=1_000)
    for _ in range(3):
        driven.append(b"x" * 900)
    with pytest.raises(BufferFullError, match="buffer_memory is 3000") as caught:
        driven.append(b"x" * 900)
    assert caught.value.record.value == b"x" * 900
    assert driven.buffered_bytes <= 3_000
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(base_offset=0))
    driven.append(b"x" * 900)


def test_room_is_taken_in_steps_and_given_back_in_full() -> None:
    driven = Driven(batch_size=16_384)
    driven.append(b"x")
    assert driven.buffered_bytes == 61 + 22 + ROOM_STEP_BYTES
    driven.append(b"x")
    assert driven.buffered_bytes == 61 + 22 + ROOM_STEP_BYTES
    driven.now_ms += 5
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(base_offset=0))
    assert driven.buffered_bytes == 0
    assert not driven.accumulator.ledger.incomplete


def test_who_flushes_does_not_let_anything_linger() -> None:
    driven = Driven(linger_ms=10_000)
    driven.append()
    driven.accumulator.hurry()
    assert len(driven.take()) == 1
    driven.append()
    assert driven.dues[-1] == driven.now_ms


def test_a_partition_without_a_leader_waits_and_is_told_of() -> None:
    driven = Driven(partitions=2)
    driven.leaders[0] = None
    driven.append(partition=0)
    driven.append(partition=1)
    driven.now_ms += 5
    assert [batch.partition.partition for batch in driven.take()] == [1]
    assert driven.accumulator.lacks_leaders
    driven.leaders[0] = 1
    assert [batch.partition.partition for batch in driven.take()] == [0]
    assert not driven.accumulator.lacks_leaders


def test_batches_go_to_the_brokers_that_lead_their_partitions() -> None:
    driven = Driven(partitions=3)
    driven.leaders = {0: 1, 1: 2, 2: 1}
    for partition in range(3):
        driven.append(partition=partition)
    driven.now_ms += 5
    parcels = driven.parcels()
    assert {node: [b.partition.partition for b in batches] for node, batches in parcels.items()} == {
        1: [0, 2],
        2: [1],
    }


def test_a_broker_without_a_slot_gets_nothing() -> None:
    driven = Driven()
    driven.append()
    driven.now_ms += 5
    driven.slots = 0
    assert driven.take() == []
    driven.slots = 1
    assert len(driven.take()) == 1


def test_a_request_is_bounded_and_what_did_not_fit_comes_first_in_the_next() -> None:
    driven = Driven(partitions=3, max_request_size=2_000)
    for partition in range(3):
        driven.append(b"x" * 800, partition=partition)
    driven.now_ms += 5
    assert [batch.partition.partition for batch in driven.take()] == [0, 1]
    driven.append(b"x" * 800, partition=0)
    driven.now_ms += 5
    assert [batch.partition.partition for batch in driven.take()] == [2, 0]


def test_nothing_is_sent_before_the_producer_has_an_id() -> None:
    driven = Driven(is_new=True)
    driven.accumulator.identity = None
    assert driven.accumulator.lacks_identity
    driven.append()
    driven.now_ms += 5
    assert driven.take() == []
    driven.accumulator.identity = ProducerIdentity(4, 2)
    (batch,) = driven.take()
    assert numbers(batch) == (4, 2, 0)


def test_each_partition_counts_its_records() -> None:
    driven = Driven(partitions=2, linger_ms=0)
    for partition in (0, 0, 0, 1):
        driven.append(partition=partition)
    assert [numbers(batch) for batch in driven.take()] == [(7, 0, 0), (7, 0, 0)]
    driven.append(partition=0)
    driven.append(partition=1)
    assert [numbers(batch) for batch in driven.take()] == [(7, 0, 3), (7, 0, 1)]


def test_without_idempotence_batches_have_no_numbers_and_one_is_on_its_way_at_a_time() -> None:
    driven = Driven(enable_idempotence=False, acks=1, batch_size=100, linger_ms=0)
    driven.append(b"a" * 50)
    driven.append(b"b" * 50)
    (first,) = driven.take()
    assert numbers(first) == (-1, -1, -1)
    assert driven.take() == []
    driven.accumulator.answered(first, Answer(base_offset=0))
    assert [values(batch) for batch in driven.take()] == [[b"b" * 50]]


def test_without_acknowledgements_nothing_waits_for_anything() -> None:
    driven = Driven(enable_idempotence=False, acks=0, batch_size=100, linger_ms=0)
    driven.append(b"a" * 50)
    driven.append(b"b" * 50)
    assert len(driven.take()) == 1
    assert len(driven.take()) == 1


def test_an_idempotent_producer_has_five_batches_on_their_way() -> None:
    driven = Driven(batch_size=100, linger_ms=0)
    for _ in range(7):
        driven.append(b"a" * 50)
    sent = [batch for _ in range(7) for batch in driven.take()]
    assert [numbers(batch)[2] for batch in sent] == [0, 1, 2, 3, 4]


def test_reports_tell_partition_offset_and_timestamp_of_each_record() -> None:
    driven = Driven(partitions=2)
    for index in range(3):
        driven.append(timestamp_ms=100 + index // 2, partition=1)
    driven.now_ms += 5
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(base_offset=40))
    assert driven.done() == [batch]
    assert [batch.outcome(index) for index in range(3)] == [
        DeliveryReport("t", 1, 40, 100),
        DeliveryReport("t", 1, 41, 100),
        DeliveryReport("t", 1, 42, 101),
    ]


def test_a_broker_that_stamps_records_itself_has_the_last_word() -> None:
    driven = Driven()
    driven.append()
    driven.now_ms += 5
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(base_offset=4, log_append_time_ms=77))
    assert batch.outcome(0) == DeliveryReport("t", 0, 4, 77)


def test_where_nobody_tells_offsets_they_are_unknown() -> None:
    driven = Driven(acks=0, enable_idempotence=False)
    driven.append()
    driven.now_ms += 5
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer())
    assert batch.outcome(0) == DeliveryReport("t", 0, -1, 9)


def test_a_record_whose_time_is_over_fails_and_nobody_knows_more_than_that() -> None:
    driven = Driven(delivery_timeout_ms=1_000)
    driven.leaders[0] = None
    batch = driven.append(b"v", b"k")
    driven.now_ms += 999
    driven.take()
    assert driven.accumulator.due_ms == driven.now_ms + 1
    driven.now_ms += 1
    driven.take()
    assert driven.done() == [batch]
    error = batch.outcome(0)
    assert isinstance(error, DeliveryError)
    assert error.code == ErrorCode.REQUEST_TIMED_OUT
    assert "within 1000 ms (delivery_timeout_ms); it was not sent" in error.message
    assert error.record == ProducerRecord("t", b"v", b"k", 0, (), 9)
    assert not error.is_uncertain
    assert driven.accumulator.due_ms == NEVER


def test_a_record_that_joins_a_batch_has_at_least_half_of_its_time() -> None:
    """Story 449: records failed that were sent long after those with which they shared a batch."""
    driven = Driven(delivery_timeout_ms=1_000)
    driven.leaders[0] = None
    first = driven.append()
    driven.now_ms += 499
    driven.take()
    assert driven.accumulator.due_ms == driven.now_ms + 1
    assert driven.append() is first
    driven.now_ms += 1
    driven.take()
    assert driven.append() is not first
    driven.now_ms += 999
    driven.take()
    assert driven.done() == [first]


def test_a_batch_whose_time_is_over_on_its_way_is_uncertain_and_its_answer_is_not_heard() -> None:
    driven = Driven(delivery_timeout_ms=1_000)
    driven.append()
    driven.now_ms += 5
    (batch,) = driven.take()
    driven.now_ms += 1_000
    driven.take()
    assert driven.done() == [batch]
    error = batch.outcome(0)
    assert isinstance(error, DeliveryError)
    assert error.is_uncertain
    driven.accumulator.answered(batch, Answer(base_offset=0))
    assert driven.done() == []
    assert isinstance(batch.outcome(0), DeliveryError)
    assert driven.buffered_bytes == 0


def test_records_without_a_key_stick_until_their_batch_is_closed() -> None:
    driven = Driven(partitions=4, batch_size=300)
    chosen = {driven.append(b"x" * 10, partition=None).partition.partition for _ in range(4)}
    assert len(chosen) == 1
    assert driven.topic.partitions.current in chosen
    driven.now_ms += 5
    driven.take()
    assert driven.topic.partitions.current == -1


def test_partitioners_see_how_many_batches_wait() -> None:
    driven = Driven(partitions=2, batch_size=100)
    for _ in range(4):
        driven.append(b"x" * 60, partition=1)
    assert driven.topic.partitions.queued == {1: 3}
    driven.take()
    assert driven.topic.partitions.queued == {1: 2}


def test_a_partition_that_does_not_exist_is_refused_whoever_names_it() -> None:
    driven = Driven(partitions=2, partitioner=lambda key, partitions: 5)
    for partition in (2, -1):
        with pytest.raises(
            DeliveryError, match=f'there is no partition {partition} of "t": it has 2'
        ) as caught:
            driven.append(partition=partition)
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(DeliveryError, match="there is no partition 5"):
        driven.append(partition=None)


def test_a_topic_that_grows_keeps_what_waits() -> None:
    driven = Driven(partitions=1)
    batch = driven.append()
    driven.accumulator.open_topic("t", 3)
    assert driven.append() is batch
    driven.append(partition=2)


def test_records_wait_for_their_topic_and_then_get_their_partitions() -> None:
    driven = Driven(partitioner=round_robin, linger_ms=0)
    records = [
        ProducerRecord("new", b"a", None, None, (), 1),
        ProducerRecord("new", b"b", None, 1, (("h", b"x"),), 2),
        ProducerRecord("new", b"c", b"k", 7, (), 3),
    ]
    held = [driven.accumulator.hold(record) for record in records]
    assert driven.take() == []
    driven.accumulator.open_topic("new", 2)
    for batch in driven.take():
        driven.accumulator.answered(batch, Answer(base_offset=10))
    outcomes = [batch.outcome(index) for batch, index in held]
    # Round robin begins at partition 1, which the second record asked for.
    assert outcomes[:2] == [DeliveryReport("new", 1, 10, 1), DeliveryReport("new", 1, 11, 2)]
    assert isinstance(outcomes[2], DeliveryError)
    assert 'there is no partition 7 of "new": it has 2' in outcomes[2].message
    assert outcomes[2].record.value == b"c"
    assert held[0][0] in driven.done()
    assert driven.buffered_bytes == 0
    assert not driven.accumulator.ledger.incomplete


def test_a_partitioner_that_fails_fails_only_its_record() -> None:
    def picky(key: bytes | None, partitions: TopicPartitions) -> int:
        if key is None:
            raise LookupError("no key")
        return 0

    driven = Driven(partitioner=picky)
    batch, _ = driven.accumulator.hold(ProducerRecord("new", b"a", None, None, (), 1))
    driven.accumulator.hold(ProducerRecord("new", b"b", b"k", None, (), 1))
    driven.accumulator.open_topic("new", 1)
    outcome = batch.outcome(0)
    assert isinstance(outcome, DeliveryError)
    assert "no key" in outcome.message
    driven.now_ms += 5
    assert [values(each) for each in driven.take()] == [[b"b"]]


def test_records_that_wait_for_a_topic_count_towards_the_buffer() -> None:
    driven = Driven(buffer_memory=2_000, max_request_size=1_500)
    driven.accumulator.hold(ProducerRecord("new", b"x" * 1_000, None, None, (), 1))
    with pytest.raises(BufferFullError):
        driven.accumulator.hold(ProducerRecord("new", b"x" * 1_000, None, None, (), 1))


def test_a_topic_that_is_given_up_on_fails_what_waits_and_not_what_is_on_its_way() -> None:
    driven = Driven(batch_size=100, linger_ms=0)
    driven.append(b"a" * 50)
    waiting = driven.append(b"b" * 50)
    (sent,) = driven.take()
    held, _ = driven.accumulator.hold(ProducerRecord("t", b"c", None, None, (), 1))
    driven.accumulator.fail_topic("t", FAILED)
    assert driven.done() == [held, waiting]
    assert isinstance(waiting.outcome(0), DeliveryError)
    assert "t" not in driven.accumulator.topics
    driven.accumulator.answered(sent, Answer(base_offset=3))
    assert driven.done() == [sent]
    assert driven.buffered_bytes == 0


def test_the_end_fails_everything_and_says_what_may_have_been_written() -> None:
    driven = Driven(batch_size=100, linger_ms=0)
    driven.append(b"a" * 50)
    waiting = driven.append(b"b" * 50)
    (sent,) = driven.take()
    driven.accumulator.fail_all(FAILED)
    assert set(driven.done()) == {sent, waiting}
    outcomes = [waiting.outcome(0), sent.outcome(0)]
    assert [isinstance(each, DeliveryError) and each.is_uncertain for each in outcomes] == [False, True]
    driven.accumulator.answered(sent, Answer(base_offset=3))
    assert driven.buffered_bytes == 0
    assert driven.take() == []


@pytest.mark.parametrize(("threshold", "expected"), [(0, Compression.LZ4), (100_000, Compression.NONE)])
def test_small_batches_are_not_compressed(threshold: int, expected: Compression) -> None:
    driven = Driven(compression=Compression.LZ4, compression_threshold=threshold, linger_ms=0)
    driven.append(b"x" * 5_000)
    (batch,) = driven.take()
    assert view(batch).compression == expected
    assert values(batch) == [b"x" * 5_000]


def test_keys_and_headers_arrive() -> None:
    driven = Driven(linger_ms=0)
    driven.append(b"a")
    driven.append(b"b", b"k", headers=(("h", b"1"),))
    driven.append(None, b"k")
    (batch,) = driven.take()
    assert [record[2:] for record in view(batch).records()] == [
        (None, b"a", ()),
        (b"k", b"b", (("h", b"1"),)),
        (b"k", None, ()),
    ]
    assert batch.partition == TopicPartition("t", 0)


def test_batches_of_a_topic_that_refused_a_large_one_stay_smaller() -> None:
    driven = Driven(linger_ms=0, batch_size=4_000)
    for _ in range(30):
        driven.append(b"x" * 100)
    (large,) = driven.take()
    driven.accumulator.answered(large, Answer(ErrorCode.MESSAGE_TOO_LARGE))
    driven.append(b"x" * 100)
    for _ in range(30):
        batch = driven.append(b"x" * 100)
    assert batch.size_bytes <= large.size_bytes // 2
    assert driven.topic.queues[0].most_bytes == large.size_bytes // 2


def test_what_somebody_waits_for_lingers_only_while_others_are_on_their_way() -> None:
    driven = Driven(linger_ms=50)
    driven.accumulator.hasten(driven.append(b"a"))
    assert driven.dues[-1] == driven.now_ms
    (first,) = driven.take()
    urgent = driven.append(b"b")
    driven.accumulator.hasten(urgent)
    assert driven.take() == []
    driven.append(b"c")
    driven.accumulator.answered(first, Answer(base_offset=0))
    assert [values(batch) for batch in driven.take()] == [[b"b", b"c"]]
    driven.append(b"d")
    driven.now_ms += 50
    assert [values(batch) for batch in driven.take()] == [[b"d"]]


def test_a_key_is_remembered_until_the_topic_grows() -> None:
    driven = Driven(partitions=2)
    driven.append(b"v", b"foobar", partition=None)
    assert driven.topic.places[b"foobar"] is driven.topic.queues[by_key(b"foobar", driven.topic.partitions)]
    driven.accumulator.open_topic("t", 3)
    assert driven.topic.places == {}
    driven.append(b"v", b"elsewhere", partition=1)  # said by the sender, not by the key
    assert driven.topic.places == {}
    for partitioner in (round_robin, lambda key, partitions: 0):
        driven = Driven(partitions=2, partitioner=partitioner)
        driven.append(b"v", b"foobar", partition=None)
        assert driven.topic.places == {}


def test_a_key_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes | None] = []

    def counting(key: bytes | None, partitions: TopicPartitions) -> int:
        hashed.append(key)
        return by_key(key, partitions)

    monkeypatch.setattr("ottla.client.producer.machine.accumulator.STEADY", {counting})
    driven = Driven(partitions=7, partitioner=counting)
    batches = {driven.append(key=b"foobar", partition=None, headers=(("h", b"%d" % n),)) for n in range(5)}
    assert len(batches) == 1
    assert hashed == [b"foobar"]


def test_so_many_keys_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.producer.machine.accumulator.KEYS_REMEMBERED", 10)
    driven = Driven()
    for number in range(25):
        driven.append(b"v", b"%d" % number, partition=None)
        assert len(driven.topic.places) <= 10
