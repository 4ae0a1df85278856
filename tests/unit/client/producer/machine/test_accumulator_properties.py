"""The producer's machine against a model of broker and network: nothing lost, nothing twice, everything in
order (PRO-2 to PRO-4).
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.client.model_broker import Network
from tests.unit.client.producing import Driven

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import BufferFullError, DeliveryError, DeliveryReport
from ottla.client.producer.machine.partition_queue import SILENCE_MS

RECORDS = 60


class Story:
    """One run from one seed."""

    def __init__(self, seed: int, partitions: int = 2, **changes: Any) -> None:
        self.random = Random(seed)
        self.driven = Driven(partitions=partitions, is_new=True, **changes)
        self.network = Network(self.random, partitions)
        self.taken: list[tuple[bytes, int, ProducerBatch, int]] = []  # value, partition, batch, index
        self.written_to = [0] * partitions

    def run(self, steps: int) -> None:
        """Everything that can happen, in any order; then the weather clears, and all comes to its end."""
        for _ in range(steps):
            self.random.choice(
                (
                    *(self.append, self.append, self.send, self.send, self.arrive, self.arrive),
                    *(self.answer, self.rest, self.lose, self.haunt),
                )
            )()
        self.clear()

    def clear(self) -> None:
        for _ in range(3_000):
            self.send()
            self.network.arrive(faulty=False)
            self.answer()
            self.driven.now_ms += 50
            if self.network.is_idle and not self.driven.accumulator.ledger.incomplete:
                return
        raise AssertionError("the producer did not come to an end")

    def append(self) -> None:
        if len(self.taken) >= RECORDS:
            return
        partition = self.random.randrange(len(self.network.logs))
        value = b"%d-%d-" % (partition, len(self.taken)) + b"x" * self.random.choice([1, 30, 100])
        try:
            batch, index = self.driven.accumulator.append(self.driven.topic, value, None, (), 9, partition)
        except BufferFullError:
            return
        self.taken.append((value, partition, batch, index))

    def send(self) -> None:
        for batches in self.driven.parcels().values():
            self.network.send(batches)

    def arrive(self) -> None:
        self.network.arrive(faulty=True)

    def answer(self) -> None:
        for batch, answer in self.network.answer():
            self.driven.accumulator.answered(batch, answer)

    def lose(self) -> None:
        if self.random.random() < 0.3:
            for batch, answer in self.network.lose():
                self.driven.accumulator.answered(batch, answer)

    def haunt(self) -> None:
        self.network.haunt()

    def rest(self) -> None:
        self.driven.now_ms += self.random.choice([1, 10, 200])

    def outcomes(self) -> list[tuple[bytes, int, DeliveryReport | DeliveryError]]:
        return [(value, partition, batch.outcome(index)) for value, partition, batch, index in self.taken]


def check(story: Story, *, may_repeat: bool = False) -> None:
    """The invariants of every story."""
    for partition, log in enumerate(story.network.logs):
        ours = [(value, outcome) for value, where, outcome in story.outcomes() if where == partition]
        counts = Counter(log.records)
        for value, outcome in ours:
            if isinstance(outcome, DeliveryReport):
                assert log.records[outcome.offset] == value or outcome.offset == -1
                assert counts[value] >= 1
            elif not outcome.is_uncertain:
                assert counts[value] == 0, f"{value!r} was refused for certain, and is in the log"
        if not may_repeat:
            assert max(counts.values(), default=0) <= 1, "written twice"
            sent = [value for value, _ in ours if counts[value]]
            assert log.records == sent, "out of order"
    assert story.driven.buffered_bytes == 0
    ended = story.driven.done()
    assert {batch for _, _, batch, _ in story.taken} <= set(ended)
    assert len(ended) == len(set(ended)), "told twice"


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_with_idempotence_records_are_written_once_and_in_order(seed: int) -> None:
    story = Story(seed, batch_size=300, linger_ms=3)
    story.run(400)
    check(story)
    assert all(isinstance(outcome, DeliveryReport) for _, _, outcome in story.outcomes())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_batches_that_are_too_large_and_records_that_are_bad_do_not_disturb_the_others(seed: int) -> None:
    story = Story(seed, batch_size=600, linger_ms=3)
    for log in story.network.logs:
        log.most_records = 2
        log.bad = frozenset(
            b"%d-%d-x" % (partition, number) for partition in range(2) for number in range(0, 60, 5)
        )
    story.run(400)
    check(story)
    bad = {value for value, _, outcome in story.outcomes() if isinstance(outcome, DeliveryError)}
    assert all(value in log.bad for value in bad for log in story.network.logs[:1])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_records_whose_time_is_over_fail_and_what_comes_after_them_is_written(seed: int) -> None:
    story = Story(seed, batch_size=300, linger_ms=3, delivery_timeout_ms=700)
    story.run(400)
    check(story)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_a_broker_that_forgets_the_producer_is_survived(seed: int) -> None:
    story = Story(seed, partitions=1, batch_size=300, linger_ms=3)
    story.run(100)
    story.driven.now_ms += SILENCE_MS  # brokers forget only silent producers
    story.network.exorcise()
    story.network.logs[0].forget()
    story.run(200)
    check(story)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_without_idempotence_nothing_is_lost_and_the_first_copies_are_in_order(seed: int) -> None:
    story = Story(seed, batch_size=300, linger_ms=3, enable_idempotence=False, acks=1)
    story.run(400)
    check(story, may_repeat=True)
    assert all(isinstance(outcome, DeliveryReport) for _, _, outcome in story.outcomes())


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9))
def test_the_buffer_never_holds_more_than_it_may(seed: int) -> None:
    story = Story(seed, batch_size=300, linger_ms=3, buffer_memory=1_500, max_request_size=1_000)
    watched = story.append

    def append() -> None:
        watched()
        assert story.driven.buffered_bytes <= 1_500

    story.append = append  # type: ignore[method-assign]
    story.run(400)
    check(story)
