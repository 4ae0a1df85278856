"""Producers whose next batch is missing, and the answer to the batches that came before it (PRO-4).

A producer has several batches in flight. A leader may refuse one of them and accept the next a millisecond
later: it has just learnt that it leads, or has enough in-sync replicas again. The next one is then out of
sequence for no other reason than the refusal, and the producer sends both again, the refused one first.

OUT_OF_ORDER_SEQUENCE_NUMBER would be the wrong answer: librdkafka begins a new producer epoch for all its
partitions, and under it sends batches again that are in a log already, unacknowledged: they are there twice.
Nor must the batch of an unknown producer be accepted at any sequence at once: librdkafka takes the answer as
an acknowledgement of the batches before it, and they are lost. Apache Kafka does both.

So a batch after a gap is answered NOT_ENOUGH_REPLICAS, which every client takes as "send it again". A producer
begins each round of sending again with its oldest batch. A gap that is still there after some rounds stays: the
log lost records, or the state of the producer has expired.
"""

from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.producer_state import SEQUENCE_MASK, Incoming

# One round is enough when a leader changes. More, for a leader that changes, or loses its replicas, again.
_ROUNDS: Final = 3
# Beyond that all are forgotten: the worst result is that they wait for some rounds more.
_MOST: Final = 1_000


class _Gap(NamedTuple):
    epoch: int
    expected: int
    latest: int
    round: int


class SequenceGaps:
    """The gap of each producer that has one, by producer id."""

    __slots__ = ("_gaps",)

    def __init__(self) -> None:
        self._gaps: dict[int, _Gap] = {}

    def refusal_of(self, incoming: Incoming, expected: int) -> KafkaError | None:
        """The answer to a batch that came instead of sequence `expected`; None if nothing is waited for.

        Nothing is waited for if the batch lies before `expected`, or the missing batch had its rounds.
        """
        producer_id, epoch, sequence = incoming.producer_id, incoming.epoch, incoming.batch.first_sequence
        if not _is_after(sequence, expected):
            return None
        gap = self._gaps.get(producer_id)
        if gap is None or (gap.epoch, gap.expected) != (epoch, expected):
            gap = _Gap(epoch, expected, sequence, 1)
        else:
            gap = gap._replace(latest=sequence, round=gap.round + (not _is_after(sequence, gap.latest)))
        if len(self._gaps) >= _MOST:
            self._gaps.clear()
        self._gaps[producer_id] = gap
        if gap.round > _ROUNDS:
            return None
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"producer {producer_id}, epoch {epoch}: sequence {expected} has not come yet;"
            f" {sequence} is to be sent again after it",
        )


def _is_after(sequence: int, earlier: int) -> bool:
    return 0 < (sequence - earlier) & SEQUENCE_MASK < SEQUENCE_MASK // 2
