"""The interface of a worker that processes several of a consumer's records at once.

Such a worker knows better than the consumer's position which records are done.
"""

from __future__ import annotations

from typing import Protocol

from ottla.model import TopicPartition


class Worker(Protocol):
    """The methods of a worker that the consumer calls."""

    def unfinished(self, partition: TopicPartition) -> int | None:
        """The first offset that is not done; None if all that was handed out is."""

    async def release(self, partitions: frozenset[TopicPartition], is_lost: bool) -> None:
        """Finish or stop the work on partitions that are about to be given up.

        Lost partitions belong to other members already.
        """

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """These are gone."""
