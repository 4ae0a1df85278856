"""Which requests are woken, and when."""

import asyncio

from ottla.replication.events import FollowerFetched
from ottla.server.partitions.waiters import Waiters


class Listener:
    """A reader or a cursor that notes what it hears."""

    def __init__(self, replica_id: int = 2, log_start_offset: int = 0) -> None:
        self.replica_id = replica_id
        self.log_start_offset = log_start_offset
        self.last_fetch_ms = 0
        self.heard: list[object] = []

    def repeat(self, leader_epoch: int) -> FollowerFetched | None:
        return None

    def on_append(self, size_bytes: int) -> None:
        self.heard.append(size_bytes)

    def on_news(self) -> None:
        self.heard.append("news")

    def on_change(self) -> None:
        self.heard.append("change")

    def wake(self) -> None:
        self.heard.append("wake")

    def replaced(self) -> None:
        self.heard.append("replaced")


def test_cursors_hear_of_appends_and_readers_of_commits() -> None:
    waiters, reader, cursor = Waiters(), Listener(), Listener()
    waiters.add_reader(reader)
    waiters.attach(cursor)
    waiters.appended(100)
    assert (reader.heard, cursor.heard) == ([], [100])
    waiters.committed(is_all=True)
    assert (reader.heard, cursor.heard) == ([100], [100, "news"])


def test_readers_hear_of_all_bytes_until_all_are_committed() -> None:
    waiters, reader = Waiters(), Listener()
    waiters.add_reader(reader)
    waiters.appended(100)
    waiters.committed(is_all=False)
    waiters.appended(10)
    waiters.committed(is_all=True)
    waiters.appended(1)
    waiters.committed(is_all=True)
    assert reader.heard == [100, 110, 1]


def test_appends_of_a_former_leadership_are_not_counted() -> None:
    waiters, reader = Waiters(), Listener()
    waiters.add_reader(reader)
    waiters.appended(100)
    waiters.leadership_ended()
    waiters.committed(is_all=True)
    assert reader.heard == [0]


def test_a_reader_that_left_hears_nothing() -> None:
    waiters, reader = Waiters(), Listener()
    waiters.add_reader(reader)
    waiters.remove_reader(reader)
    waiters.remove_reader(reader)
    waiters.wake()
    assert reader.heard == []


def test_each_follower_has_its_newest_cursor_only() -> None:
    waiters, old, new, other = Waiters(), Listener(2), Listener(2, 7), Listener(3)
    waiters.attach(old)
    waiters.attach(other)
    waiters.attach(new)
    assert (old.heard, other.heard) == (["replaced"], [])
    waiters.detach(old)
    assert waiters.follower_starts() == {3: 0, 2: 7}


def test_a_changed_log_start_wakes_followers_and_a_change_of_leaders_everybody() -> None:
    waiters, reader, cursor = Waiters(), Listener(), Listener()
    waiters.add_reader(reader)
    waiters.attach(cursor)
    waiters.log_start_moved()
    assert (reader.heard, cursor.heard) == ([], ["change"])
    waiters.wake()
    assert (reader.heard, cursor.heard) == (["wake"], ["change", "change"])


def test_a_caller_waits_until_the_log_start_of_a_follower_moves() -> None:
    async def scenario() -> None:
        waiters = Waiters()
        waiting = [asyncio.ensure_future(waiters.next_follower_start()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        waiters.follower_start_moved()
        await waiting[1]

    asyncio.run(scenario())
