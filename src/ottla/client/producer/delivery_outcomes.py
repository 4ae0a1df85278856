"""Reports the outcomes of batches to their senders, and keeps errors that no sender has seen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ottla.client.producer.machine.batch import OnDelivery, ProducerBatch
from ottla.client.producer.machine.delivery_report import DeliveryError

# A program that never flushes must not fill its memory with failed records.
_RECORDS_KEPT: Final = 10_000


class Outcomes:
    """Reports finished batches (`tell`), and raises errors that no sender has seen (`raise_unheard`)."""

    def __init__(self) -> None:
        self._unheard: list[ProducerBatch] = []
        self._records_kept = 0
        self._records_forgotten = 0

    def tell(self, batches: Iterable[ProducerBatch]) -> None:
        """Wake the tasks that wait for a record of these batches, and call the callbacks."""
        for batch in batches:
            for waiter in batch.take_waiters():
                if not waiter.done():
                    waiter.set_result(None)
            for index, on_delivery in batch.take_callbacks():
                _call(on_delivery, batch, index)
            if batch.heard < len(batch) and batch.has_failures:
                self._keep(batch)

    def raise_unheard(self) -> None:
        """Raise one error for all failures since the last call that no sender has seen."""
        if (error := self.take_unheard()) is not None:
            raise error

    def take_unheard(self) -> DeliveryError | None:
        """One error for all failures since the last call that no sender has seen."""
        batches, self._unheard = self._unheard, []
        forgotten, self._records_kept, self._records_forgotten = self._records_forgotten, 0, 0
        errors = [
            outcome
            for batch in batches
            if batch.heard < len(batch)
            for index in range(len(batch))
            if isinstance(outcome := batch.outcome(index), DeliveryError)
        ]
        return _joined(errors, forgotten) if errors else None

    def _keep(self, batch: ProducerBatch) -> None:
        if self._records_kept < _RECORDS_KEPT:
            self._unheard.append(batch)
            self._records_kept += len(batch)
        else:
            self._records_forgotten += len(batch)


async def ended(batches: Iterable[ProducerBatch]) -> None:
    """Wait until all of these batches have ended."""
    for batch in batches:
        if not batch.is_done:
            waiter = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            await waiter


def _call(on_delivery: OnDelivery, batch: ProducerBatch, index: int) -> None:
    """Call a callback; its failure must not keep the others from being called."""
    try:
        on_delivery(batch.outcome(index))
    except Exception as error:
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "a delivery callback failed", "exception": error})


def _joined(errors: list[DeliveryError], forgotten: int) -> DeliveryError:
    if len(errors) == 1 and not forgotten:
        return errors[0]
    records = tuple(record for error in errors for record in error.records)
    return DeliveryError(
        errors[0].code,
        f"{len(records) + forgotten} records were not delivered; the first: {errors[0].message}",
        records,
        is_uncertain=any(error.is_uncertain for error in errors),
    )
