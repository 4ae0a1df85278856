"""The records of one partition that were sent, and those that are acknowledged.

Records may be acknowledged in any order. The group goes on at the first record that is not: everything before is
done, and everything after is sent again after a reconnect.
"""

from __future__ import annotations


class Acknowledgements:
    """The open records of one partition, in the order in which they were sent."""

    __slots__ = ("_open", "done")

    def __init__(self) -> None:
        self._open: dict[int, bool] = {}  # by offset: whether it is acknowledged
        self.done: int | None = None  # the offset to commit; None before the first acknowledgement

    @property
    def unacknowledged(self) -> int:
        """How many records were sent and are not acknowledged."""
        return sum(not each for each in self._open.values())

    def sent(self, offset: int) -> None:
        self._open[offset] = False

    def acknowledge(self, offset: int, *, up_to: bool) -> int:
        """Returns how many records are acknowledged by this. Raises ValueError for one that was never sent.

        A record that is acknowledged twice counts once.
        """
        if up_to:
            named = [each for each in self._open if each <= offset]
        elif offset in self._open:
            named = [offset]
        elif self.done is not None and offset < self.done:
            return 0
        else:
            raise ValueError(f"no record with offset {offset} is waiting for an acknowledgement")
        count = sum(not self._open[each] for each in named)
        for each in named:
            self._open[each] = True
        self._advance()
        return count

    def _advance(self) -> None:
        passed = []
        for offset, is_acknowledged in self._open.items():
            if not is_acknowledged:
                break
            passed.append(offset)
        for offset in passed:
            del self._open[offset]
            self.done = offset + 1
