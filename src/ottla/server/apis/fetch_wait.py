"""A fetch that waits in a long poll: for `min_bytes`, or until it is woken because waiting is useless."""

import asyncio


class FetchWait:
    """Waits until enough was appended, or until it is woken."""

    __slots__ = ("_missing_bytes", "future", "is_over")

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        # Woken for another reason than records: the deadline, another leader, a broker that stops.
        self.is_over = False
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_append(self, size_bytes: int) -> None:
        """More can be read now."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and not self.future.done():
            self.future.set_result(None)

    def on_load(self, _: "asyncio.Future[None]") -> None:
        """Records were read from the object store, or could not be."""
        if not self.future.done():
            self.future.set_result(None)

    def wake(self) -> None:
        """Do not wait any longer."""
        self.is_over = True
        if not self.future.done():
            self.future.set_result(None)
