"""Somebody who works on several of a consumer's records at once, and knows better than the position what is done."""

from __future__ import annotations

from typing import Protocol

from ottla.model import TopicPartition


class Worker(Protocol):
    """What a consumer asks it, and tells it."""

    def unfinished(self, partition: TopicPartition) -> int | None:
        """The first offset that is not done; None if all that was handed out is."""

    async def release(self, partitions: frozenset[TopicPartition], is_lost: bool) -> None:
        """These are about to go: finish or stop the work on them. If they are lost, they are somebody else's already."""

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """These are gone."""
