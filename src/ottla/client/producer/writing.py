"""The parts of a producer between the application and the cluster.

    application ── records ──> Accumulator ── batches ──> Sender ──> leaders
                                   │
                                   ├── ProducerTopics ──> metadata
                                   └── ProducerIds, or Transactions ──> any broker, or coordinators

Each time after batches were looked for, finished ones are reported to their senders, and the accumulator gets
what it lacks: a producer id, or, in a transaction, partitions that may be written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.client.calls import arguments
from ottla.client.calls.lifetime import Lifetime
from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.topology import Topology
from ottla.client.producer.broker_loads import BrokerLoads
from ottla.client.producer.buffer_room import BufferRoom
from ottla.client.producer.delivery_outcomes import Outcomes, ended
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import Failure, final_failure
from ottla.client.producer.machine.partitioners import Partitioner, load_aware
from ottla.client.producer.machine.settings import ProducerSettings
from ottla.client.producer.machine.transaction import TransactionalProducer
from ottla.client.producer.producer_ids import ProducerIds
from ottla.client.producer.sender import Sender
from ottla.client.producer.topic_metadata import ProducerTopics
from ottla.client.producer.transaction_coordinator import TransactionCoordinator
from ottla.client.producer.transactions import Transactions
from ottla.errors import ErrorCode
from ottla.runtime.clock import precise_ms


class Writing:
    """The parts of one producer; `draw` returns a random number from 0 to 1."""

    def __init__(
        self,
        asking: Connections,
        settings: ProducerSettings,
        partitioner: Partitioner,
        draw: Callable[[], float],
        *,
        metadata_max_age_ms: int,
        may_create_topics: bool,
    ) -> None:
        self._settings = settings
        self._asking = asking
        self._sending = asking.sibling()
        self.topology = Topology(
            asking,
            max_age_ms=arguments.whole_number(
                "metadata_max_age_ms", metadata_max_age_ms, 1, arguments.MOST_INT32
            ),
            on_change=self._topology_changed,
            may_create_topics=arguments.flag("allow_auto_create_topics", may_create_topics),
        )
        self._wants_loads = partitioner is load_aware
        transaction = TransactionalProducer() if settings.is_transactional else None
        self.accumulator = Accumulator(
            settings, partitioner, clock=precise_ms, draw=draw, on_due=self._wake_at, transaction=transaction
        )
        self.directory = ProducerTopics(
            self.accumulator, self.topology, settings.max_block_ms, on_failure=self._pump
        )
        self._sender = Sender(
            self.accumulator,
            self._sending,
            self.topology,
            settings,
            on_pumped=self._pumped,
            on_failure=self._fail,
        )
        self._background = Background(self._fail)
        self._outcomes = Outcomes()
        self.room = BufferRoom(self.accumulator, settings.buffer_memory, self._pump)
        self.transactions = None if transaction is None else self._transactional(transaction)
        timeout_ms = settings.request_timeout_ms
        self._producer_ids = ProducerIds(
            self.accumulator, asking, self._background, self._pump, timeout_ms=timeout_ms
        )
        self.failure: Failure | None = None  # why nothing can be sent any more
        self.lifetime = Lifetime("producer")

    def _transactional(self, machine: TransactionalProducer) -> Transactions:
        coordinator = TransactionCoordinator(self._asking, self._settings, machine.lost)
        return Transactions(
            machine, self.accumulator, coordinator, self._outcomes, self._background, self._pump
        )

    async def open(self) -> None:
        """Connect, and keep metadata fresh from now on; with a transactional id, get a producer id first."""
        self.lifetime.needs_new()
        await self._asking.reach()
        self.accumulator.belong_to(self.lifetime.begin())
        self._background.start(self.topology.run())
        if self._wants_loads:
            timeout_ms = self._settings.request_timeout_ms
            loads = BrokerLoads(
                self._asking, self.directory.leaders, self.directory.weigh, timeout_ms=timeout_ms
            )
            self._background.start(loads.run())
        self._sender.pump()
        if self.transactions is not None:
            try:
                await self.transactions.open()
            except BaseException:
                self.lifetime.end()
                await self._end()
                raise

    async def flush(self) -> None:
        """Send all records, and wait until they have ended. Raises DeliveryError that no caller has seen."""
        with self.room.hurried():
            await ended(list(self.accumulator.ledger.incomplete))
        self._outcomes.raise_unheard()

    async def close(self, limit_ms: float | None, abort_ms: float) -> None:
        """Flush within `limit_ms`, then close all connections. Raises DeliveryError like `flush`.

        An open transaction is aborted, which may take `abort_ms`.
        """
        self.lifetime.end()
        try:
            if self.transactions is not None:
                await self.transactions.close(abort_ms / 1000)
            with self.room.hurried():
                async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                    await ended(list(self.accumulator.ledger.incomplete))
        except TimeoutError:
            pass
        finally:
            await self._end()
        self._outcomes.raise_unheard()

    # ---- inside

    def _wake_at(self, due_ms: float) -> None:
        self._sender.wake_at(due_ms)

    def _pump(self) -> None:
        self._sender.pump()

    def _topology_changed(self) -> None:
        if self.failure is None:
            self.directory.learn()
            self._sender.pump()

    def _pumped(self, done: list[ProducerBatch]) -> None:
        if done:
            self._tell(done)
        if self.transactions is not None:
            self.transactions.supply(done)
        else:
            self._producer_ids.supply()

    def _tell(self, batches: list[ProducerBatch]) -> None:
        self._outcomes.tell(batches)
        self.room.wake()

    def _fail(self) -> None:
        """Something broke for good: nothing can be sent any more."""
        self.failure = final_failure(self._sender.failure or self._background.failure)
        if self.transactions is not None:
            self.transactions.fail(self.failure)
        self._give_up(self.failure)

    def _give_up(self, failure: Failure) -> None:
        self.accumulator.fail_all(failure)
        self._tell(self.accumulator.ledger.take_done())

    async def _end(self) -> None:
        # First the part that cannot be interrupted: every caller is woken, even if closing is cancelled.
        self._sender.stop()
        self.directory.close()
        self._give_up(
            Failure(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before the record was delivered")
        )
        self.accumulator.topics.clear()
        await self._sender.close()
        await self._background.close()
        await self._sending.close()
        await self._asking.close()
