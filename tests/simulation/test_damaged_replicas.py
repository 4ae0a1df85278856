"""A replica with records that cannot be read steps aside, and is repaired from another one (REP-10).

Shipped nodes with default settings, but for small segments that are scrubbed often.
"""

from __future__ import annotations

import pytest
from tests.simulation.stories.audit import log_bytes
from tests.simulation.stories.town import TOPIC, Town
from tests.simulation.world.node import Node

from ottla.log.files.file_names import LOG, offset_of
from ottla.records.batch import iter_batches

pytestmark = pytest.mark.timeout(300)


def town_of_small_segments(seed: int, replicas: int = 3, scrub_interval_ms: int = 2000) -> Town:
    settings = {
        "log.segment.bytes": "6000",
        "log.index.size.max.bytes": "2048",
        "ottla.log.scrub.interval.ms": str(scrub_interval_ms),
        "ottla.log.scrub.io.max.bytes.per.second": "1000000",
    }
    town = Town(seed, settings=settings)
    town.open(leads_from_controller=None if replicas == len(town.nodes) else False, replicas=replicas)
    return town


def directory(node: Node) -> str:
    return f"/data/{node.number}/{TOPIC}-0"


def segments(node: Node) -> list[str]:
    """The paths of the .log files of the partition, oldest first."""
    paths = node.disk.paths(directory(node))
    return [path for path in paths if offset_of(path.rpartition("/")[2], LOG) is not None]


def quarantined(node: Node) -> list[str]:
    return [path for path in node.disk.paths(directory(node)) if ".quarantine-" in path]


def rot(node: Node, path: str, share: float = 0.5) -> None:
    """One bit of a file changes behind everybody's back."""
    content = node.disk.content(path)
    content[int(len(content) * share)] ^= 4


def other(town: Town, *nodes: Node) -> Node:
    return next(node for node in town.nodes if node not in nodes)


def is_out(town: Town, node: Node) -> bool:
    return node.number not in town.placed().isr


def comes_back(town: Town, node: Node, within_s: float = 20) -> bool:
    placed = town.placed
    return town.world.run(
        lambda: node.number in placed().isr and not placed().is_damaged_on(node.number),
        town.world.now + within_s,
    )


def are_equal(town: Town) -> bool:
    """Whether all replicas hold the same bytes, as far as the shortest of them goes."""
    logs = [log_bytes(node.disk, f"/data/{node.number}", (TOPIC, 0)) for node in town.nodes]
    shortest = min(map(len, logs))
    return len({log[:shortest] for log in logs}) == 1


@pytest.mark.parametrize("is_leader", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_rotten_segment_is_found_set_aside_and_fetched_again(seed: int, is_leader: bool) -> None:
    town = town_of_small_segments(seed)
    node = town.leader() if is_leader else other(town, town.leader())
    began_s = town.world.now
    rot(node, segments(node)[1])
    assert town.world.run(lambda: is_out(town, node), began_s + 20)
    assert town.leader() is not node
    assert comes_back(town, node)
    assert len(quarantined(node)) == 1
    assert are_equal(town)
    assert town.longest_gap_ms(began_s) <= 1_000
    town.live_on(5)
    assert not is_out(town, node)
    town.world.bury()


def test_a_replica_to_which_nothing_is_written_is_repaired_as_well() -> None:
    town = town_of_small_segments(5)
    node = other(town, town.leader())
    town.fall_quiet()
    rot(node, segments(node)[1])
    assert town.world.run(lambda: is_out(town, node), town.world.now + 20)
    assert comes_back(town, node)
    assert len(quarantined(node)) == 1
    assert are_equal(town)
    town.world.bury()


def test_a_leader_that_cannot_read_hands_over_until_its_disk_reads_again() -> None:
    town = Town(1)
    town.open()
    node, began_s = town.leader(), town.world.now
    node.disk.unreadable = directory(node)
    assert town.world.run(lambda: is_out(town, node), began_s + 5)
    town.live_on(8)
    assert is_out(town, node)
    assert town.placed().is_damaged_on(node.number)
    node.disk.unreadable = None
    assert comes_back(town, node)
    assert not quarantined(node)
    assert are_equal(town)
    assert town.longest_gap_ms(began_s) <= 4_000
    town.world.bury()


def test_records_that_a_follower_refuses_cost_their_leader_the_leadership() -> None:
    town = Town(1)
    town.open()
    leader = town.leader()
    late = other(town, leader)
    network = town.world.network
    network.cut(leader.host, late.host)
    network.cut(late.host, leader.host)
    town.live_on(5)
    assert is_out(town, late)
    # In the active segment, which nobody scrubs.
    rot(leader, segments(leader)[-1], 0.99)
    network.heal(leader.host, late.host)
    network.heal(late.host, leader.host)
    assert town.world.run(lambda: town.leader() is not leader, town.world.now + 10)
    assert comes_back(town, late)
    assert comes_back(town, leader)
    assert len(quarantined(leader)) == 1
    assert are_equal(town)
    town.world.bury()


def test_the_last_replica_leads_on_although_it_is_damaged_and_is_repaired_when_another_is_back() -> None:
    town = town_of_small_segments(2, replicas=2, scrub_interval_ms=1_000_000)
    leader = town.leader()
    follower = town.nodes[next(n for n in town.placed().replicas if n != leader.number) - 1]
    follower.kill()
    assert town.world.run(lambda: town.placed().isr == (leader.number,), town.world.now + 10)
    rot(leader, segments(leader)[1])
    hosted = leader.broker.partitions.find(TOPIC, 0) if leader.broker is not None else None
    assert hosted is not None
    hosted.log.status.note_unread(hosted.log.extent.segments[1].base_offset)
    town.live_on(10)
    assert town.leader() is leader
    assert not quarantined(leader)
    follower.start()
    assert town.world.run(lambda: town.leader() is follower, town.world.now + 20)
    assert comes_back(town, leader)
    assert len(quarantined(leader)) == 1
    town.world.bury()


def test_a_damaged_replica_keeps_its_records_while_too_few_others_have_them() -> None:
    town = town_of_small_segments(4)
    leader = town.leader()
    gone = other(town, leader, town.controller())
    gone.kill()
    assert town.world.run(lambda: is_out(town, gone), town.world.now + 10)
    rot(leader, segments(leader)[1])
    assert town.world.run(lambda: town.placed().is_damaged_on(leader.number), town.world.now + 20)
    town.live_on(15)
    assert not quarantined(leader)
    gone.start()
    assert comes_back(town, gone)
    assert comes_back(town, leader)
    assert are_equal(town)
    town.world.bury()


def test_the_only_replica_stays_as_it_is() -> None:
    town = town_of_small_segments(3, replicas=1)
    leader, began_s = town.leader(), town.world.now
    rot(leader, segments(leader)[1])
    town.live_on(10)
    assert town.leader() is leader
    assert not quarantined(leader)
    assert town.longest_gap_ms(began_s) <= 300
    town.world.bury()


def test_a_damaged_replica_is_not_in_sync_after_a_restart_before_it_is_repaired() -> None:
    town = town_of_small_segments(3)
    node = other(town, town.leader())
    rotten = segments(node)[1]
    rot(node, rotten)
    assert town.world.run(lambda: town.placed().is_damaged_on(node.number), town.world.now + 20)
    assert not quarantined(node)
    node.kill()
    town.live_on(0.5)
    node.start()
    assert comes_back(town, node)
    assert [path.partition(".quarantine-")[0] for path in quarantined(node)] == [rotten]
    assert are_equal(town)
    town.world.bury()


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_node_whose_metadata_rotted_while_it_was_down_fetches_them_again(is_controller: bool) -> None:
    town = Town(1)
    town.open(leads_from_controller=False)
    node = town.controller() if is_controller else other(town, town.leader(), town.controller())
    node.stop()
    assert town.world.run(lambda: not node.is_running, town.world.now + 10)
    path = f"/data/{node.number}/__cluster_metadata-0/00000000000000000000.log"
    largest = max(iter_batches(bytes(node.disk.content(path))), key=lambda batch: batch.size_bytes)
    node.disk.rot(path, largest.position + largest.size_bytes - 20)
    town.live_on(1)
    began_s = town.world.now
    node.start()
    assert town.world.run(lambda: node.is_ready and not is_out(town, node), began_s + 10)
    town.fall_quiet()
    images = [each.broker.quorum.image for each in town.nodes if each.broker is not None]
    assert images[0] == images[1] == images[2]
    logs = [
        bytes(each.disk.content(path.replace(f"/{node.number}/", f"/{each.number}/"))) for each in town.nodes
    ]
    shortest = min(map(len, logs))
    assert len({log[:shortest] for log in logs}) == 1
    town.world.bury()
