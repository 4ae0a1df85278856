"""How replicas should lie: decided above the gateway, by what `ottla cluster drain` and `rebalance` use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ottla.client.admin.admin import Admin
from ottla.model import TopicPartition

Replicas: TypeAlias = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True, slots=True)
class MovePlanner:
    """Plans of moves, from what a client can ask; and their end."""

    drain: Callable[[Admin, int], Awaitable[Replicas]]  # of a broker; KafkaError if the others are too few
    rebalance: Callable[[Admin], Awaitable[tuple[Replicas, list[TopicPartition]]]]  # and all partitions
    cancel: Callable[[Admin], Awaitable[list[TopicPartition]]]  # the moves under way
