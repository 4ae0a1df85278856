"""The handle of a record that was sent: await it for the report, or for the error."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport


class Delivery:
    """`await delivery` returns the DeliveryReport, or raises the DeliveryError.

    Any number of tasks may await it, at any time. It costs next to nothing until it is awaited: the answer
    comes for a whole batch at once.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, DeliveryReport]:
        batch = self._batch
        batch.heard += 1
        if not batch.is_done:
            # A future for each task: a cancelled task cancels the future that it awaits.
            waiter = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            yield from waiter
        outcome = batch.outcome(self._index)
        if isinstance(outcome, DeliveryError):
            raise outcome
        return outcome

    def done(self) -> bool:
        """Whether awaiting would return at once."""
        return self._batch.is_done
