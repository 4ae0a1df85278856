"""A network in memory: messages are late, lost, doubled and overtaken, and links are cut, in one direction or both.

What happens to a message is drawn from one random number generator, so that a seed replays it. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the links are like. Every message draws its delay, so messages overtake each other."""

    min_delay_us: int = 200
    max_delay_us: int = 3_000
    slow_delay_us: int = 3_000  # of the few that are much later
    slow_share: float = 0.0
    loss_share: float = 0.0
    double_share: float = 0.0


CALM = Conditions()


class Network:
    """Decides when a message arrives, and how often."""

    def __init__(self, random: Random, conditions: Conditions = CALM) -> None:
        self._random = random
        self.conditions = conditions
        self._cut: set[tuple[int, int]] = set()

    def delays_us(self, sender: int, receiver: int) -> list[int]:
        """After which times a message arrives: mostly one, none if it is lost, two if it is doubled."""
        if (sender, receiver) in self._cut:
            return []
        conditions, random = self.conditions, self._random
        if conditions.loss_share and random.random() < conditions.loss_share:
            return []
        delays = [self._delay_us()]
        if conditions.double_share and random.random() < conditions.double_share:
            delays.append(self._delay_us())
        return delays

    @property
    def longest_delay_us(self) -> int:
        return max(self.conditions.max_delay_us, self.conditions.slow_delay_us)

    def is_cut(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._cut

    def cut(self, senders: Iterable[int], receivers: Iterable[int]) -> None:
        """Nothing goes from these to those any more; the other direction stays as it is."""
        receivers = set(receivers)
        self._cut |= {
            (sender, receiver) for sender in senders for receiver in receivers if sender != receiver
        }

    def part(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Cut both directions between two groups."""
        some, others = set(some), set(others)
        self.cut(some, others)
        self.cut(others, some)

    def heal(self) -> None:
        """All links are whole again."""
        self._cut.clear()

    def _delay_us(self) -> int:
        conditions, random = self.conditions, self._random
        if conditions.slow_share and random.random() < conditions.slow_share:
            return random.randint(conditions.min_delay_us, conditions.slow_delay_us)
        return random.randint(conditions.min_delay_us, conditions.max_delay_us)
