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
        if not batch.is_done:
            loop = asyncio.get_running_loop()
            if loop is not batch.home:
                raise RuntimeError("a Delivery is awaited in the event loop that its producer belongs to")
            # A future for each task: a cancelled task cancels the future that it awaits.
            waiter = loop.create_future()
            batch.waiters.append(waiter)
            batch.heard += 1
            yield from waiter
        else:
            batch.heard += 1
        outcome = batch.outcome(self._index)
        if isinstance(outcome, DeliveryError):
            raise outcome
        return outcome

    def done(self) -> bool:
        """Whether awaiting would return at once."""
        return self._batch.is_done
