"""Producers with a batch that the disk did not take, and the answer to their next batches.

A producer has several batches in flight. If one of them cannot be written, the later ones are out of sequence
for that reason only. If they were answered OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka would begin a new
producer epoch for all its partitions and send batches again that other leaders have already: duplicates
(PRO-4). So they are answered KAFKA_STORAGE_ERROR until the missing batch has arrived again. Apache Kafka
closes the log instead, with the same answer.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.producer_state import SEQUENCE_MASK, Incoming, ProducerEntry, Producers

_PRODUCER: Final = Struct(">qhi")  # id, epoch, first sequence, from byte 43 of a batch on
_PRODUCER_POSITION: Final = 43
_SMALLEST_BYTES: Final = _PRODUCER_POSITION + _PRODUCER.size
# Beyond that all are forgotten: the worst result is OUT_OF_ORDER_SEQUENCE_NUMBER, as without this module.
_MOST: Final = 1_000


class _Missing(NamedTuple):
    epoch: int
    sequence: int


class InterruptedProducers:
    """The missing batch of each interrupted producer, by producer id."""

    __slots__ = ("_missing",)

    def __init__(self) -> None:
        self._missing: dict[int, _Missing] = {}

    def note(self, record_sets: Iterable[memoryview], producers: Producers) -> None:
        """Note, of the batches that could not be written, the next one of each producer."""
        for records in record_sets:
            if len(records) >= _SMALLEST_BYTES:
                producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
                missing, entry = _Missing(epoch, sequence), producers.get(producer_id)
                if producer_id < 0:
                    continue
                if entry is None:
                    self._missing.setdefault(producer_id, missing)
                elif _is_due(missing, entry):
                    self._missing[producer_id] = missing
        if len(self._missing) > _MOST:
            self._missing.clear()

    def refusal_of(self, incoming: Incoming, entry: ProducerEntry | None) -> KafkaError | None:
        """The answer to a batch that follows a missing one; None if nothing is missing before it."""
        missing = self._missing.get(incoming.producer_id)
        if missing is None:
            return None
        if incoming.epoch != missing.epoch or not (entry is None or _is_due(missing, entry)):
            del self._missing[incoming.producer_id]
            return None
        if 0 < (incoming.batch.first_sequence - missing.sequence) & SEQUENCE_MASK < SEQUENCE_MASK // 2:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"sequence {missing.sequence} of producer {incoming.producer_id} could not be written"
                " and has not come again",
            )
        return None


def _is_due(missing: _Missing, entry: ProducerEntry) -> bool:
    """Whether `missing` is the producer's next batch: the next sequence, or the first of a newer epoch."""
    if missing.epoch == entry.epoch:
        return missing.sequence == entry.next_sequence
    return missing.epoch > entry.epoch and missing.sequence == 0
