"""A consumer is sent to an in-sync replica in its rack that holds what it asks for (KIP-392)."""

from collections.abc import Mapping

from tests.unit.replication.leaders import fetched, leader

from ottla.model import NO_NODE
from ottla.replication.events import LogEndOffsetMoved
from ottla.replication.nearest_replica import nearest_replica

RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "b"}


def nearest(offset: int, rack: str, racks: Mapping[int, str | None] = RACKS, **starts: int) -> int:
    """Node 1 leads and has ten records; node 2 has seven of them, and node 3 has nine."""
    replica = leader()
    replica.step(LogEndOffsetMoved(10), now_ms=0)
    replica.step(fetched(2, 7), now_ms=0)
    replica.step(fetched(3, 9), now_ms=0)
    return nearest_replica(replica, offset, rack, racks, {int(name[1:]): at for name, at in starts.items()})


def test_the_replica_with_the_longest_log_in_the_rack_is_named() -> None:
    assert nearest(0, "b") == 3
    assert nearest(9, "b") == 3
    assert nearest(0, "b", {1: "a", 2: "b", 3: "c"}) == 2


def test_the_leader_is_asked_where_it_is_as_near() -> None:
    assert nearest(0, "a") == NO_NODE
    assert nearest(0, "b", {1: "b", 2: "b", 3: "b"}) == NO_NODE


def test_a_rack_without_a_replica_that_is_up_reads_from_the_leader() -> None:
    assert nearest(0, "z") == NO_NODE
    assert nearest(0, "b", {1: "a"}) == NO_NODE
    assert nearest(0, "b", {1: "a", 2: None, 3: None}) == NO_NODE


def test_a_replica_that_lacks_the_offset_is_not_named() -> None:
    assert nearest(10, "b") == NO_NODE
    assert nearest(8, "b", {1: "a", 2: "b"}) == NO_NODE
    assert nearest(4, "b", _2=0, _3=5) == 2
    assert nearest(4, "b", _2=5, _3=5) == NO_NODE


def test_a_replica_that_is_not_in_sync_is_not_named() -> None:
    replica = leader(isr=(1, 2))
    replica.step(LogEndOffsetMoved(10), now_ms=0)
    replica.step(fetched(3, 5), now_ms=0)
    assert nearest_replica(replica, 0, "b", {1: "a", 3: "b"}, {}) == NO_NODE
