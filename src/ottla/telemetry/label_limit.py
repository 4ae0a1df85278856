"""How many names have series of their own.

Every topic and every group costs a scraper some series, for as long as it keeps them. Beyond a limit names share
one label, `OTHER`: their numbers are added up, and nothing is silently missing. Who came first keeps its series
until the name is gone, so that series do not come and go with every scrape.
"""

from collections.abc import Mapping
from typing import Final

OTHER: Final = "__other__"


class LabelLimit:
    """The names that have series of their own. Each name has a weight: how many series of a family it brings."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shown: dict[str, int] = {}
        self.hidden_count = 0

    def admit(self, weights: Mapping[str, int]) -> None:
        """Take over which names there are now."""
        kept = {name: weights[name] for name in self._shown if name in weights}
        used, shown = 0, {}
        for name, weight in {**kept, **weights}.items():
            if used + weight <= self._most:
                used += weight
                shown[name] = weight
        self._shown = shown
        self.hidden_count = len(weights) - len(shown)

    def label_of(self, name: str) -> str:
        """The name itself, or the label that it shares with others."""
        return name if name in self._shown else OTHER

    def shows(self, name: str) -> bool:
        """Whether the name has series of its own."""
        return name in self._shown
