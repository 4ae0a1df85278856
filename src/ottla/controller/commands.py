"""Commands that the protocol does not have: those that the active controller's shell gives by itself, and requests
together with the user who made them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.security.principal import Principal

# Accounts for partitions that are about to be created or deleted. KafkaError if they must not be.
Charge = Callable[[int], None]


def free_of_charge(partition_count: int) -> None:
    """Account for nothing: nobody limits who asks."""


@dataclass(frozen=True, slots=True)
class Metered:
    """A request of a client that may create and delete a limited number of partitions."""

    request: Any
    charge: Charge


@dataclass(frozen=True, slots=True)
class FenceBrokers:
    """These brokers are not heard of any more (`BrokerLiveness.expired`). There is no response."""

    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BalanceLeaders:
    """Leadership back to the preferred replicas of every broker that misses more than this part of it.

    Partitions without a leader are looked at, too: what has become electable meanwhile is elected. No
    response.
    """

    imbalance_percentage: int


@dataclass(frozen=True, slots=True)
class ExpireTokens:
    """Delegation tokens that have expired are removed. There is no response."""


@dataclass(frozen=True, slots=True)
class OnBehalfOf:
    """A client's request that is decided by who made it. It has the response of the request."""

    request: Any
    requester: Principal
