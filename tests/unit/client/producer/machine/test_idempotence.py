"""Producer ids, epochs and sequences of an idempotent producer (PRO-4)."""

from __future__ import annotations

import pytest
from tests.unit.client.producing import Driven, numbers, values

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.batch_answers import Answer
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.client.producer.machine.idempotence import (
    LAST_EPOCH,
    SEQUENCE_MASK,
    ProducerIdentity,
    Verdict,
    judge,
)
from ottla.client.producer.machine.partition_queue import SILENCE_MS
from ottla.errors import ErrorCode

LOST = Answer(ErrorCode.NETWORK_EXCEPTION)
OUT_OF_ORDER = Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
NOT_LEADER = Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def three_on_their_way() -> tuple[Driven, list[ProducerBatch]]:
    """Batches `a`, `b` and `c` of partition 0, each with one record."""
    driven = Driven(linger_ms=0)
    sent: list[ProducerBatch] = []
    for value in (b"a", b"b", b"c"):
        driven.append(value)
        sent += driven.take()
    assert [numbers(batch) for batch in sent] == [(7, 0, 0), (7, 0, 1), (7, 0, 2)]
    return driven, sent


@pytest.mark.parametrize(
    ("error", "is_first", "count", "verdict"),
    [
        (ErrorCode.NONE, True, 1, Verdict.DONE),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, True, 1, Verdict.DONE),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False, 1, Verdict.RETRY),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True, 1, Verdict.RESET),
        (ErrorCode.UNKNOWN_PRODUCER_ID, True, 1, Verdict.RESET),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True, 1, Verdict.RENEW),
        (ErrorCode.MESSAGE_TOO_LARGE, True, 2, Verdict.SPLIT),
        (ErrorCode.RECORD_LIST_TOO_LARGE, True, 2, Verdict.SPLIT),
        (ErrorCode.MESSAGE_TOO_LARGE, True, 1, Verdict.FAIL),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, 1, Verdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, 1, Verdict.RETRY),
        (ErrorCode.NETWORK_EXCEPTION, True, 1, Verdict.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_ID, True, 1, Verdict.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True, 1, Verdict.FAIL),
        (ErrorCode.INVALID_RECORD, True, 2, Verdict.FAIL),
    ],
)
def test_the_table_of_verdicts(error: ErrorCode, is_first: bool, count: int, verdict: Verdict) -> None:
    assert judge(error, is_idempotent=True, is_first=is_first, records_count=count) is verdict


def test_without_idempotence_a_broker_that_speaks_of_sequences_is_not_understood() -> None:
    for error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH):
        assert judge(error, is_idempotent=False, is_first=True, records_count=1) is Verdict.FAIL


def test_a_batch_is_sent_again_with_the_same_bytes_after_a_pause() -> None:
    driven = Driven(linger_ms=0)
    driven.append()
    (batch,) = driven.take()
    before = bytes(batch.encoded or b"")
    driven.accumulator.answered(batch, LOST)
    assert driven.take() == []
    assert driven.accumulator.due_ms == driven.now_ms + 100
    driven.now_ms += 100
    assert driven.take() == [batch]
    assert bytes(batch.encoded or b"") == before


def test_pauses_double_up_to_a_bound_and_vary_by_a_fifth() -> None:
    driven = Driven(linger_ms=0)
    driven.append()
    pauses = []
    for _ in range(6):
        (batch,) = driven.take()
        driven.accumulator.answered(batch, LOST)
        driven.take()
        pauses.append(driven.accumulator.due_ms - driven.now_ms)
        driven.now_ms = driven.accumulator.due_ms
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]


def test_the_new_leader_is_tried_at_once_if_the_answer_names_it() -> None:
    driven = Driven(linger_ms=0)
    driven.append()
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, is_leader_known=True))
    assert driven.take() == [batch]


def test_after_a_refusal_the_batches_are_sent_again_one_by_one_in_order() -> None:
    driven, (a, b, c) = three_on_their_way()
    driven.accumulator.answered(a, NOT_LEADER)
    driven.accumulator.answered(b, OUT_OF_ORDER)
    driven.accumulator.answered(c, OUT_OF_ORDER)
    driven.append(b"d")
    assert driven.take() == []
    driven.now_ms += 1_000
    for batch in (a, b):
        assert driven.take() == [batch]
        assert driven.take() == []
        driven.accumulator.answered(batch, Answer(base_offset=0))
    assert driven.take() == [c]
    # Nothing comes before what was never sent but what is on its way.
    assert [values(batch) for batch in driven.take()] == [[b"d"]]
    assert [numbers(batch) for batch in (a, b, c) if batch.encoded] == [(7, 0, 2)]


def test_answers_that_come_in_another_order_keep_the_batches_in_order() -> None:
    driven, (a, b, c) = three_on_their_way()
    for batch in (c, a, b):
        driven.accumulator.answered(batch, LOST)
    driven.now_ms += 1_000
    for batch in (a, b, c):
        assert driven.take() == [batch]
        driven.accumulator.answered(batch, Answer(base_offset=0))


def test_a_batch_that_the_broker_has_already_is_a_success() -> None:
    driven = Driven(linger_ms=0)
    driven.append()
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    assert batch.outcome(0) == DeliveryReport("t", 0, -1, 9)


def test_a_gap_that_nothing_will_fill_begins_a_new_epoch_when_nothing_is_on_its_way() -> None:
    driven, (a, b, c) = three_on_their_way()
    driven.accumulator.answered(a, OUT_OF_ORDER)
    driven.now_ms += 1_000
    assert driven.take() == []  # whether b and c were taken is not known yet
    driven.accumulator.answered(b, OUT_OF_ORDER)
    driven.accumulator.answered(c, OUT_OF_ORDER)
    driven.now_ms += 1_000
    assert driven.take() == [a]
    assert numbers(a) == (7, 1, 0)
    assert values(a) == [b"a"]
    assert driven.take() == []  # a broker that has forgotten us would take b before a
    driven.accumulator.answered(a, Answer(base_offset=1))
    assert [numbers(batch) for _ in range(2) for batch in driven.take()] == [(7, 1, 1), (7, 1, 2)]


def test_a_batch_that_is_refused_for_good_leaves_no_gap() -> None:
    driven, (a, b, c) = three_on_their_way()
    driven.accumulator.answered(a, Answer(ErrorCode.INVALID_TIMESTAMP, message="too old."))
    error = a.outcome(0)
    assert isinstance(error, DeliveryError)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert error.message == "t-0 did not take the record: too old."
    assert error.record.value == b"a"
    driven.accumulator.answered(b, OUT_OF_ORDER)
    driven.accumulator.answered(c, OUT_OF_ORDER)
    driven.now_ms += 1_000
    for batch, expected in ((b, (7, 1, 0)), (c, (7, 1, 1))):
        assert driven.take() == [batch]
        assert numbers(batch) == expected
        driven.accumulator.answered(batch, Answer(base_offset=1))


def test_a_batch_before_the_gap_that_may_have_been_written_keeps_its_numbers() -> None:
    driven, (a, b, c) = three_on_their_way()
    driven.accumulator.answered(a, Answer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    driven.accumulator.answered(b, Answer(ErrorCode.INVALID_TIMESTAMP))
    driven.accumulator.answered(c, OUT_OF_ORDER)
    driven.now_ms += 1_000
    assert driven.take() == [a]
    assert numbers(a) == (7, 0, 0)
    driven.accumulator.answered(a, Answer(base_offset=1))
    assert driven.take() == [c]
    assert numbers(c) == (7, 1, 0)


def test_no_more_batches_follow_one_that_is_not_done_than_a_broker_remembers() -> None:
    driven, (a, b, c) = three_on_their_way()
    for batch, answer in ((a, LOST), (b, Answer(base_offset=2)), (c, Answer(base_offset=3))):
        driven.accumulator.answered(batch, answer)
    driven.now_ms += 1_000
    sent: list[ProducerBatch] = []
    for _ in range(6):
        driven.append(b"d")
        sent += driven.take()
    assert [batch.place for batch in sent] == [0, 3, 4]
    driven.accumulator.answered(a, Answer(base_offset=1))
    assert len(driven.take()) == 1


def test_only_the_partition_with_the_gap_begins_anew() -> None:
    driven = Driven(partitions=2, linger_ms=0)
    for partition in (0, 1):
        driven.append(partition=partition)
    first, second = driven.take()
    driven.accumulator.answered(first, OUT_OF_ORDER)
    driven.accumulator.answered(second, Answer(base_offset=0))
    driven.append(partition=1)
    assert [numbers(batch) for batch in driven.take()] == [(7, 0, 1)]
    driven.now_ms += 1_000
    assert [numbers(batch) for batch in driven.take()] == [(7, 1, 0)]


def test_an_id_that_is_spoiled_is_given_up_and_nothing_is_sent_before_there_is_another() -> None:
    driven, (a, b, c) = three_on_their_way()
    for batch in (a, b, c):
        driven.accumulator.answered(batch, Answer(ErrorCode.INVALID_PRODUCER_EPOCH))
    driven.now_ms += 1_000
    assert driven.take() == []
    assert driven.accumulator.lacks_identity
    driven.accumulator.identity = ProducerIdentity(8, 0)
    for batch, expected in ((a, (8, 0, 0)), (b, (8, 0, 1)), (c, (8, 0, 2))):
        assert driven.take() == [batch]
        assert numbers(batch) == expected
        driven.accumulator.answered(batch, Answer(base_offset=1))


def test_after_the_last_epoch_a_new_id_is_asked_for() -> None:
    driven = Driven(linger_ms=0)
    driven.append()
    (batch,) = driven.take()
    driven.topic.queues[0].sequence.epoch = LAST_EPOCH
    driven.accumulator.answered(batch, OUT_OF_ORDER)
    driven.now_ms += 1_000
    driven.take()
    assert driven.accumulator.lacks_identity
    driven.accumulator.identity = ProducerIdentity(8, 0)
    assert [numbers(each) for each in driven.take()] == [(8, 0, 0)]


def test_sequences_begin_again_after_the_last() -> None:
    driven = Driven(linger_ms=0)
    driven.topic.queues[0].sequence.next_sequence = SEQUENCE_MASK
    driven.append()
    driven.append()
    (batch,) = driven.take()
    assert numbers(batch) == (7, 0, SEQUENCE_MASK)
    driven.append()
    assert [numbers(batch) for batch in driven.take()] == [(7, 0, 1)]


def test_the_first_batch_goes_alone_and_the_first_after_a_long_silence() -> None:
    driven = Driven(linger_ms=0, is_new=True)
    for _ in range(2):
        driven.append(b"a")
        (first,) = driven.take()
        driven.append(b"b")
        assert driven.take() == []
        driven.accumulator.answered(first, Answer(base_offset=0))
        (second,) = driven.take()
        driven.append(b"c")
        (third,) = driven.take()
        for batch in (second, third):
            driven.accumulator.answered(batch, Answer(base_offset=0))
        driven.now_ms += SILENCE_MS + 1


def test_a_batch_too_large_for_its_topic_is_sent_in_halves_before_what_follows() -> None:
    driven = Driven(linger_ms=0)
    for value in (b"a", b"b", b"c"):
        large = driven.append(value)
    driven.take()
    driven.append(b"d")
    (after,) = driven.take()
    driven.accumulator.answered(large, Answer(ErrorCode.MESSAGE_TOO_LARGE))
    driven.accumulator.answered(after, OUT_OF_ORDER)
    driven.now_ms += 1_000
    sent = []
    for offset in (20, 30, 40):
        (batch,) = driven.take()
        sent.append((values(batch), numbers(batch)))
        driven.accumulator.answered(batch, Answer(base_offset=offset))
    assert sent == [([b"a"], (7, 1, 0)), ([b"b", b"c"], (7, 1, 1)), ([b"d"], (7, 1, 3))]
    assert [large.outcome(index) for index in range(3)] == [
        DeliveryReport("t", 0, offset, 9) for offset in (20, 30, 31)
    ]
    assert {large, after} < set(driven.done())
    assert driven.buffered_bytes == 0


def test_records_that_a_broker_names_fail_and_the_others_are_written() -> None:
    driven = Driven(linger_ms=0)
    for value in (b"a", b"bad", b"c"):
        batch = driven.append(value)
    driven.take()
    driven.accumulator.answered(batch, Answer(ErrorCode.INVALID_RECORD, bad_records=((1, "no key"),)))
    (kept,) = driven.take()
    assert values(kept) == [b"a", b"c"]
    driven.accumulator.answered(kept, Answer(base_offset=5))
    outcomes = [batch.outcome(index) for index in range(3)]
    assert outcomes[0] == DeliveryReport("t", 0, 5, 9)
    assert outcomes[2] == DeliveryReport("t", 0, 6, 9)
    assert isinstance(outcomes[1], DeliveryError)
    assert outcomes[1].message == "t-0 did not take the record: no key"
    assert outcomes[1].record.value == b"bad"
    assert batch in driven.done()


def test_where_all_records_are_named_all_fail() -> None:
    driven = Driven(linger_ms=0)
    batch = driven.append()
    driven.take()
    driven.accumulator.answered(
        batch, Answer(ErrorCode.INVALID_RECORD, bad_records=((0, "no key"), (9, "?")))
    )
    error = batch.outcome(0)
    assert isinstance(error, DeliveryError)
    assert error.message == "t-0 did not take the record: no key"


@pytest.mark.parametrize(
    ("answer", "is_uncertain"),
    [
        (LOST, True),
        (Answer(ErrorCode.NETWORK_EXCEPTION, was_sent=False), False),
        (NOT_LEADER, False),
        (Answer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), True),
    ],
)
def test_a_failure_says_whether_the_record_may_have_been_written(answer: Answer, is_uncertain: bool) -> None:
    driven = Driven(linger_ms=0, delivery_timeout_ms=1_000)
    batch = driven.append()
    driven.take()
    driven.accumulator.answered(batch, answer)
    driven.now_ms += 1_000
    driven.take()
    error = batch.outcome(0)
    assert isinstance(error, DeliveryError)
    assert error.is_uncertain is is_uncertain


def test_retries_have_a_bound_if_one_is_set_and_not_reaching_a_broker_does_not_count() -> None:
    driven = Driven(linger_ms=0, retries=1)
    batch = driven.append()
    for answer in (Answer(ErrorCode.NETWORK_EXCEPTION, was_sent=False), NOT_LEADER):
        driven.take()
        driven.accumulator.answered(batch, answer)
        assert not batch.is_done
        driven.now_ms += 1_000
    driven.take()
    driven.accumulator.answered(batch, NOT_LEADER)
    error = batch.outcome(0)
    assert isinstance(error, DeliveryError)
    assert error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_follows_a_batch_whose_time_was_over_goes_on_whether_that_was_written_or_not() -> None:
    driven = Driven(linger_ms=0, delivery_timeout_ms=1_000)
    driven.append(b"a")
    (a,) = driven.take()
    driven.accumulator.answered(a, LOST)
    driven.now_ms += 500
    driven.append(b"b")
    driven.now_ms += 500
    (b,) = driven.take()
    assert a.is_done
    assert numbers(b) == (7, 0, 1)
    driven.accumulator.answered(b, OUT_OF_ORDER)
    driven.now_ms += 100
    assert [numbers(batch) for batch in driven.take()] == [(7, 1, 0)]
