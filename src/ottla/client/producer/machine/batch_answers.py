"""The consequences of an answer: a batch is done, sent again, split, or refused (see `idempotence`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import Failure
from ottla.client.producer.machine.idempotence import UNCERTAIN, Verdict, judge
from ottla.client.producer.machine.memory_ledger import Ledger
from ottla.client.producer.machine.partition_queue import PartitionQueue
from ottla.client.producer.machine.settings import ProducerSettings
from ottla.errors import ErrorCode

# Waits vary by a fifth, so that producers do not march in step (as with Kafka's clients).
_JITTER: Final = 0.2
# How long a transaction waits for the markers of the one before, which are being written.
_MARKERS_MS: Final = 20
# A topic that takes less in a batch than this has other problems.
_LEAST_BATCH_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer about one batch, or NETWORK_EXCEPTION if there was none."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str | None = None
    bad_records: tuple[tuple[int, str | None], ...] = ()  # by index, where the broker names them (KIP-467)
    was_sent: bool = True
    is_leader_known: bool = False  # the answer named the new leader: no need to wait for metadata


class Answers:
    """Takes answers in, one by one."""

    def __init__(
        self,
        settings: ProducerSettings,
        ledger: Ledger,
        clock: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._draw = draw

    def take_in(self, queue: PartitionQueue, batch: ProducerBatch, answer: Answer) -> None:
        """Decide about a batch that is no longer on its way, and carry that out."""
        verdict = judge(
            answer.error,
            is_idempotent=self._settings.enable_idempotence,
            is_first=answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.is_first(batch),
            records_count=len(batch),
        )
        if self._settings.is_transactional and verdict in (Verdict.RESET, Verdict.RENEW):
            verdict = Verdict.FAIL  # the next epoch comes from the coordinator
        if not answer.was_sent:
            batch.attempts -= 1
        elif answer.error in UNCERTAIN:
            batch.may_be_written = True
        if verdict is Verdict.DONE:
            queue.heard(self._clock())
            self._ledger.deliver(batch, answer.base_offset, answer.log_append_time_ms)
        elif verdict is Verdict.SPLIT:
            self._split(queue, batch)
        elif verdict is Verdict.FAIL or batch.attempts > self._settings.retries:
            self._refuse(queue, batch, answer)
        else:
            self._retry(queue, batch, answer, verdict)

    def _retry(self, queue: PartitionQueue, batch: ProducerBatch, answer: Answer, verdict: Verdict) -> None:
        if verdict in (Verdict.RESET, Verdict.RENEW):
            queue.reset_from(batch, with_new_id=verdict is Verdict.RENEW)
        follows_another = verdict is Verdict.RETRY and answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not (follows_another or answer.is_leader_known):
            batch.failures += 1
            is_brief = answer.error == ErrorCode.CONCURRENT_TRANSACTIONS
            wait_ms = _MARKERS_MS if is_brief else self._backoff_ms(batch.failures)
            batch.not_before_ms = self._clock() + wait_ms
        queue.put_back(batch)

    def _refuse(self, queue: PartitionQueue, batch: ProducerBatch, answer: Answer) -> None:
        """Fail the batch; the batches after it get new sequence numbers."""
        queue.reset_from(batch)
        bad = {index: message for index, message in answer.bad_records if 0 <= index < len(batch)}
        if bad and len(bad) < len(batch) and not self._settings.is_transactional:
            self._separate(queue, batch, answer, bad)
        else:
            why = next(filter(None, bad.values()), None)
            self._ledger.fail(batch, _failure(batch, answer, why))

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """In two halves."""
        half = len(batch) // 2
        # The topic allows less than we put into a batch: so large a one would be refused again.
        queue.most_bytes = min(queue.most_bytes, max(batch.size_bytes // 2, _LEAST_BATCH_BYTES))
        first, second = self._ledger.divide(batch, [range(half), range(half, len(batch))])
        if self._settings.is_transactional:
            batch.hand_over_numbers(first, second)
        else:
            queue.reset_from(batch)
        queue.put_back(first, second)

    def _separate(
        self, queue: PartitionQueue, batch: ProducerBatch, answer: Answer, bad: dict[int, str | None]
    ) -> None:
        """The records that the broker will not have fail; the others are sent without them."""
        good = [index for index in range(len(batch)) if index not in bad]
        kept, *refused = self._ledger.divide(batch, [good, *([index] for index in bad)])
        queue.put_back(kept)
        for part, why in zip(refused, bad.values(), strict=True):
            self._ledger.fail(part, _failure(batch, answer, why))

    def _backoff_ms(self, failures: int) -> float:
        settings = self._settings
        # The exponent has a bound: past it, nothing grows but the number.
        grown = settings.retry_backoff_ms << min(failures - 1, 20)
        longest = max(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        return min(grown, longest) * (1 + _JITTER * (2 * self._draw() - 1))


def _failure(batch: ProducerBatch, answer: Answer, why: str | None) -> Failure:
    message = why or answer.message or answer.error.message
    text = f"{batch.partition} did not take the record: {message}"
    return Failure(answer.error, text, batch.may_be_written)
