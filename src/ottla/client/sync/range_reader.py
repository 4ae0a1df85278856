"""Reads an exact range of a partition's offsets as raw record batches, for Spark, which decodes them itself.

    start            position                          end
      |=================|--------------------------------|
          returned          one fetch is under way

`machine.range_fetches` decides what to fetch, when to try again and which offsets are lost. While the caller
works on a response, the next fetch is under way: the broker reads, the kernel receives. No thread is needed,
and no more than one response is held in memory.
"""

from __future__ import annotations

from uuid import UUID

from ottla.client.cluster.backoff import backoff_ms
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.machine.range_fetches import OffsetsLostError, RangeFetches, RangeSettings
from ottla.client.sync.range_batches import RangeBatches
from ottla.model import TopicPartition

__all__ = ["OffsetsLostError", "RangeReader", "RangeSettings"]


class RangeReader:
    """Reads the offsets [start, end) of one partition. `read` returns None at the end of the range."""

    def __init__(
        self,
        brokers: BlockingBrokers,
        partition: TopicPartition,
        start: int,
        end: int,
        settings: RangeSettings,
        topic_id: UUID | None = None,
    ) -> None:
        self._brokers = brokers
        self._fetches = RangeFetches(brokers.known, partition, (start, end), settings, backoff_ms, topic_id)

    def read(self) -> RangeBatches | None:
        """The next batches, valid until the next call.

        Raises OffsetsLostError, KafkaError, ConnectionError or TimeoutError.
        """
        found = self._brokers.converse(self._fetches.next_batches())
        if self._fetches.ahead is not None:
            self._brokers.begin(self._fetches.ahead)
        return found

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset."""
        self.close()
        self._fetches.skip_to(offset)

    def close(self) -> None:
        """Fetch no more."""
        self._brokers.abandon()
