"""The transactions of one log that hold readers of committed records back.

A transaction does so from its first record on: while it is open, and after its marker as long as the high
watermark is not above the marker. Without the second condition a reader could see the records of a
transaction whose marker the next leader does not have.
"""

from collections import deque
from typing import Final, NamedTuple

_ENDED: Final = -1  # in the place of the producer of an open transaction


class BegunTransaction(NamedTuple):
    """The first batch of a transaction was placed at `first_offset`."""

    producer_id: int
    first_offset: int


class EndedTransaction(NamedTuple):
    """The marker at `marker_offset` ended the transaction that began at `first_offset`.

    `first_offset` is -1 for a transaction without records here.
    """

    producer_id: int
    epoch: int
    first_offset: int
    marker_offset: int


Turn = BegunTransaction | EndedTransaction


class Transactions:
    """The open and the unreplicated transactions, in the order of their first offsets."""

    __slots__ = ("_ended", "_producers")

    def __init__(self) -> None:
        # By first offset, lowest first: offsets are given out in that order.
        self._producers: dict[int, int] = {}
        # Those whose marker may be above the high watermark, in the order of the markers.
        self._ended: deque[EndedTransaction] = deque()

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the oldest transaction here; None without one."""
        # Every read asks for it, and there is nearly always none.
        return next(iter(self._producers)) if self._producers else None

    def open_before(self, offset: int) -> list[BegunTransaction]:
        """The open transactions that began before `offset`."""
        return [found for found in self.open_ones() if found.first_offset < offset]

    def open_ones(self) -> list[BegunTransaction]:
        """The open transactions, oldest first."""
        return [
            BegunTransaction(producer_id, first_offset)
            for first_offset, producer_id in self._producers.items()
            if producer_id != _ENDED
        ]

    def first_open_besides(self, producer_ids: set[int]) -> int | None:
        """The start of the oldest open transaction of any producer but these."""
        for first_offset, producer_id in self._producers.items():
            if producer_id != _ENDED and producer_id not in producer_ids:
                return first_offset
        return None

    def follow(self, turns: list[Turn]) -> None:
        """Take over the beginnings and ends of an append, in the order of their offsets."""
        for turn in turns:
            if isinstance(turn, BegunTransaction):
                self._producers[turn.first_offset] = turn.producer_id
            elif turn.first_offset in self._producers:
                self._producers[turn.first_offset] = _ENDED
                self._ended.append(turn)

    def forget(self, first_offset: int) -> None:
        """Drop an open transaction: none of its records is left."""
        self._producers.pop(first_offset, None)

    @property
    def first_unreplicated_marker(self) -> int | None:
        """The lowest marker that some replica may lack; None without one."""
        return self._ended[0].marker_offset if self._ended else None

    def replicated_to(self, high_watermark: int) -> bool:
        """The high watermark rose. Whether a reader of committed records may read on for that reason."""
        ended = self._ended
        if not ended:
            return False
        before = self.first_unstable_offset
        while ended and ended[0].marker_offset < high_watermark:
            del self._producers[ended.popleft().first_offset]
        return self.first_unstable_offset != before
