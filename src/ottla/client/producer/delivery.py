"""A record on its way, as its sender holds it: await it, and it is where it should be, or the error says why not."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport


class Delivery:
    """`await delivery` answers the DeliveryReport, or raises the DeliveryError. Any number of tasks may await it, at any time.

    It costs next to nothing until somebody awaits it: the answer comes for a whole batch at once.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, DeliveryReport]:
        batch = self._batch
        batch.heard += 1
        if not batch.is_done:
            # A future of its own for each who waits: a task that is cancelled cancels what it awaits.
            waiter = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            yield from waiter
        outcome = batch.outcome(self._index)
        if isinstance(outcome, DeliveryError):
            raise outcome
        return outcome

    def done(self) -> bool:
        """Whether awaiting it would answer at once."""
        return self._batch.is_done
