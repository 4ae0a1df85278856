"""The transaction coordinators of this broker: one shard per partition of `__transaction_state` that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage
from ottla.controller.records import TRANSACTION_VERSION_FEATURE
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.runtime.runtime import Runtime
from ottla.server.coordinators.coordinators import steady
from ottla.server.coordinators.internal_topic import InternalTopic, TopicPlan
from ottla.server.coordinators.shards import Shards
from ottla.server.coordinators.transaction_questions import TransactionQuestions
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.producer_ids import ProducerIds
from ottla.server.quorum.quorum import Quorum

if TYPE_CHECKING:
    from ottla.server.coordinators.marker_sender import MarkerSender, WriteHere
    from ottla.server.coordinators.transaction_shard import TransactionShard

TRANSACTIONS_TOPIC: Final = "__transaction_state"


class Transactions:
    """Finds the shard of a transactional id, and has the shards look for what took too long."""

    def __init__(
        self,
        config: BrokerConfig,
        quorum: Quorum,
        partitions: Partitions,
        flusher: Flusher,
        producer_ids: ProducerIds,
        runtime: Runtime,
    ) -> None:
        self._config = config.transactions
        self._quorum = quorum
        self._flusher = flusher
        self._producer_ids = producer_ids
        self._steady_ms = steady(runtime.clock)
        self.topic = InternalTopic(_plan(config), quorum, len(config.node.voters), self._steady_ms)
        self._shards = Shards(self.topic, quorum, partitions, self._new_shard, lambda _: None)
        self._questions = TransactionQuestions(self._config, quorum, self.topic, self.ask)
        self._write_here: WriteHere | None = None
        self._sender: MarkerSender | None = None
        self._tending: asyncio.Task[None] | None = None

    def start(self, write_here: WriteHere) -> None:
        """Load the shards of what this broker leads already. `write_here` writes markers to partitions that this
        broker leads.
        """
        self._write_here = write_here
        self._shards.take_partitions(self._quorum.image)

    async def stop(self) -> None:
        """Refuse all waiting requests, and send no more markers."""
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
        await self._shards.stop()
        if self._sender is not None:
            await self._sender.stop()

    def apply(self, after: ClusterImage) -> None:
        """Follow a change of metadata: partitions to coordinate come and go."""
        self._shards.take_partitions(after)

    @property
    def finalized_version(self) -> int:
        """The level of `transaction.version` that the whole cluster works at."""
        return self._quorum.image.features.get(TRANSACTION_VERSION_FEATURE, 0)

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """The shard that answers for a transactional id; KafkaError when it is not here."""
        return self._shards.of(transactional_id)

    @property
    def shards(self) -> list[TransactionShard]:
        """All of this broker's."""
        return self._shards.all

    async def ask(self, transactional_id: str, command: Any) -> Any:
        """The answer of the transactional id's coordinator; KafkaError when it is not here."""
        return await self.shard_of(transactional_id).ask(command)

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Ask the coordinator, wherever it is, whether partitions are in the transaction of a producer; with
        `adds` they join it.
        """
        return await self._questions.verify(
            transactional_id, producer_id, producer_epoch, partitions, adds=adds
        )

    def _new_shard(self, partition: HostedPartition) -> TransactionShard:
        # Imported here: a broker without transactions starts faster without the machine that coordinates them.
        from ottla.server.coordinators.marker_sender import MarkerSender
        from ottla.server.coordinators.transaction_shard import TransactionShard, World
        from ottla.transaction.coordinator import TransactionCoordinator

        assert self._write_here is not None, "shards are made after the start"
        if self._sender is None:
            self._sender = MarkerSender(self._quorum, self._write_here)
            self._tending = asyncio.get_running_loop().create_task(self._tend())
        world = World(self._steady_ms, lambda: self.finalized_version, self._producer_ids.next_id)
        machine = TransactionCoordinator(self._config)
        return TransactionShard(partition, machine, self._flusher, world, self._sender)

    async def _tend(self) -> None:
        """Now and then abort what took too long, and forget what is not used."""
        expiry_ms = self._steady_ms() + self._config.expired_cleanup_interval_ms
        while True:
            await asyncio.sleep(self._config.abort_cleanup_interval_ms / 1000)
            is_expiry_due = self._steady_ms() >= expiry_ms
            if is_expiry_due:
                expiry_ms = self._steady_ms() + self._config.expired_cleanup_interval_ms
            for shard in self.shards:
                await shard.abort_timed_out()
                if is_expiry_due:
                    await shard.expire_ids()


def _plan(config: BrokerConfig) -> TopicPlan:
    transactions = config.transactions
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
        "segment.bytes": str(transactions.state_log_segment_bytes),
    }
    return TopicPlan(
        TRANSACTIONS_TOPIC,
        transactions.state_log_num_partitions,
        transactions.state_log_replication_factor,
        configs,
        min_isr=transactions.state_log_min_isr,
    )
