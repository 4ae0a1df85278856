"""The requests that wait for news of one partition, apart from those of producers.

Readers     consumers in a long poll; they hear of records when the high watermark passes them
Cursors     followers' positions; they hear of records when the log grows, and of the high watermark and the
            log start with their next answer, or at once where consumers read from followers
Callers     of DeleteRecords, until the log start of a follower moves

Producers wait for watermarks (acknowledgement.py).
"""

import asyncio
from typing import Final, Protocol

from ottla.replication.events import FollowerFetched
from ottla.runtime.ordered_set import OrderedSet

_ENOUGH_BYTES: Final = 1 << 62  # for any reader


class Reader(Protocol):
    """A consumer's fetch in a long poll."""

    def on_append(self, size_bytes: int) -> None:
        """More can be read now."""

    def wake(self) -> None:
        """Do not wait any longer."""


class Cursor(Protocol):
    """The position of a follower that fetches this partition in a session."""

    replica_id: int
    log_start_offset: int

    @property
    def last_fetch_ms(self) -> int:
        """When the follower last fetched in its session, whatever it named."""

    def repeat(self, leader_epoch: int) -> FollowerFetched | None:
        """The event for the replica about fetches that did not name this partition.

        None if that is no news.
        """

    def on_append(self, size_bytes: int) -> None:
        """The log grew."""

    def on_news(self) -> None:
        """The follower should hear something with the next answer."""

    def on_change(self) -> None:
        """The follower should hear something now: another leader, another log start, the end."""

    def replaced(self) -> None:
        """The same follower fetches the partition in a newer session."""


class Waiters:
    """The readers, cursors and callers that wait for one partition."""

    __slots__ = ("_start_waiters", "_unseen_bytes", "cursors", "hurries_commits", "readers")

    def __init__(self) -> None:
        self.readers: OrderedSet[Reader] = OrderedSet()
        self.cursors: list[Cursor] = []
        self._start_waiters: list[asyncio.Future[None]] = []
        # Appended and not yet below the high watermark: what readers have not heard of.
        self._unseen_bytes = 0
        # Whether consumers read from followers, which learn of the high watermark with an answer only.
        self.hurries_commits = False

    def add_reader(self, reader: Reader) -> None:
        """Have a consumer's fetch woken from now on."""
        self.readers.add(reader)

    def remove_reader(self, reader: Reader) -> None:
        """Do not wake it any more."""
        self.readers.discard(reader)

    def attach(self, cursor: Cursor) -> None:
        """Tell a follower's cursor of news from now on, and no older cursor of the same follower."""
        for other in self.cursors:
            if other.replica_id == cursor.replica_id:
                other.replaced()
                break
        self.cursors.append(cursor)

    def detach(self, cursor: Cursor) -> None:
        """Tell a cursor nothing more."""
        if cursor in self.cursors:
            self.cursors.remove(cursor)

    def appended(self, size_bytes: int) -> None:
        """The log grew."""
        self._unseen_bytes += size_bytes
        for cursor in self.cursors:
            cursor.on_append(size_bytes)

    def committed(self, is_all: bool, ends_transaction: bool = False) -> None:
        """The high watermark rose; `is_all`, to the end of the log.

        With `ends_transaction` it passed a marker, and readers of committed records may read what they were
        held back from.
        """
        for cursor in self.cursors:
            if self.hurries_commits:
                cursor.on_change()
            else:
                cursor.on_news()
        size_bytes = _ENOUGH_BYTES if ends_transaction else self._unseen_bytes
        if is_all:
            self._unseen_bytes = 0
        if self.readers:
            # Where some bytes are not committed yet the number is too large: a reader that finds less waits
            # on.
            for reader in tuple(self.readers):
                reader.on_append(size_bytes)

    def hurry_commits(self) -> None:
        """A consumer reads from a follower: in this leadership, followers hear of commits at once."""
        self.hurries_commits = True

    def log_start_moved(self) -> None:
        """Records were deleted here: followers hear of it at once."""
        for cursor in self.cursors:
            cursor.on_change()

    def leadership_ended(self) -> None:
        """The appends of the former leadership are not counted any more."""
        self._unseen_bytes = 0
        self.hurries_commits = False

    def wake(self) -> None:
        """Let all waiting requests answer with the present records."""
        for reader in tuple(self.readers):
            reader.wake()
        for cursor in self.cursors:
            cursor.on_change()
        self.follower_start_moved()

    def follower_starts(self) -> dict[int, int]:
        """The log start of each follower that fetches, by replica id."""
        return {cursor.replica_id: cursor.log_start_offset for cursor in self.cursors}

    def follower_start_moved(self) -> None:
        """A follower's log starts later than before."""
        waiting, self._start_waiters = self._start_waiters, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_follower_start(self) -> None:
        """Return when a follower's log start has moved, or when that will not happen here."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._start_waiters.append(future)
        await future
