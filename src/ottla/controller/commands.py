"""Commands that the active controller's shell gives by itself: no node sends them, so the protocol does not
have them.
"""

from dataclasses import dataclass


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
