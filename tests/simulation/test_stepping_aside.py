"""A broken part steps aside (REP-10): how long writes with acks=all stand still when a disk fails or is full, or when
most voters are gone.

Shipped nodes with default settings; three partitions, so that every node leads one.
"""

from __future__ import annotations

from math import inf

import pytest
from tests.simulation.promises.stage import Stage
from tests.simulation.stories.town import Town
from tests.simulation.world.node import Node

from ottla.errors import KafkaError

pytestmark = pytest.mark.timeout(300)

PARTITIONS = range(3)
FLUSHED = {"ottla.flush.on.acks.all": "true"}


def node_of(town: Town, *, is_controller: bool) -> Node:
    return next(node for node in town.nodes if node.is_controller is is_controller)


def is_in_sync(town: Town, node: Node) -> bool:
    """Whether a node has its place in the ISR of every partition."""
    return all(node.number in town.placed(index).isr for index in PARTITIONS)


def is_out(town: Town, node: Node) -> bool:
    return all(node.number not in town.placed(index).isr for index in PARTITIONS)


def comes_back(town: Town, node: Node, within_s: float) -> bool:
    return town.world.run(lambda: node.is_ready and is_in_sync(town, node), town.world.now + within_s)


@pytest.mark.parametrize("failing", ["writes", "syncs"])
@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_voter_whose_disk_fails_halts_writes_go_on_and_it_is_back_after_a_restart(
    seed: int, is_controller: bool, failing: str
) -> None:
    town = Town(seed, partitions=len(PARTITIONS), probe_s=0.02, settings=FLUSHED)
    town.open()
    broken = node_of(town, is_controller=is_controller)
    began_s = town.world.now
    broken.disk.writes_fail, broken.disk.syncs_fail = failing == "writes", failing == "syncs"
    town.live_on(3)
    assert not broken.is_running
    assert "Input/output error" in (broken.failure or "")
    assert is_out(town, broken)
    assert town.longest_gap_ms(began_s) <= 1_000
    broken.disk.writes_fail = broken.disk.syncs_fail = False
    began_s = town.world.now
    broken.start()
    assert comes_back(town, broken, 10)
    assert town.longest_gap_ms(began_s) <= 300
    town.world.bury()


@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_node_whose_disk_is_full_leaves_at_once_and_comes_back_when_there_is_room(
    seed: int, is_controller: bool
) -> None:
    town = Town(seed, partitions=len(PARTITIONS))
    town.open()
    full = node_of(town, is_controller=is_controller)
    began_s = town.world.now
    full.disk.is_full = True
    town.live_on(3)
    assert is_out(town, full)
    assert town.longest_gap_ms(began_s) <= 300
    full.disk.is_full = False
    began_s = town.world.now
    assert comes_back(town, full, 4)
    assert town.longest_gap_ms(began_s) <= 300
    town.world.bury()


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_node_whose_disk_ends_no_flush_is_not_waited_for_and_comes_back_when_it_does(
    is_controller: bool,
) -> None:
    town = Town(1, partitions=len(PARTITIONS), probe_s=0.02, settings=FLUSHED)
    town.open()
    hanging = node_of(town, is_controller=is_controller)
    began_s = town.world.now
    hanging.slowness = inf
    town.live_on(12)
    assert is_out(town, hanging)
    assert town.longest_gap_ms(began_s) <= 8_000
    settled_s = town.world.now
    town.live_on(3)
    assert town.longest_gap_ms(settled_s) <= 300
    hanging.slowness = 1.0
    began_s = town.world.now
    assert comes_back(town, hanging, 5)
    assert town.longest_gap_ms(began_s) <= 300
    town.world.bury()


@pytest.mark.parametrize("seed", range(2))
def test_a_follower_that_does_not_reach_its_leader_leaves_within_seconds(seed: int) -> None:
    town = Town(seed)
    town.open()
    leader, controller = town.leader(), town.controller()
    cut = next(node for node in town.nodes if node not in (leader, controller))
    network, began_s = town.world.network, town.world.now
    network.cut(leader.host, cut.host)
    network.cut(cut.host, leader.host)
    town.live_on(5)
    assert cut.number not in town.placed().isr
    assert town.leader() is leader
    assert town.longest_gap_ms(began_s) <= 4_000
    town.world.bury()


def test_a_follower_that_falls_behind_leaves_after_the_lag_time_and_joins_when_it_has_caught_up() -> None:
    # One batch in each answer: over a slow link fewer arrive than are written.
    one_batch = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
    town = Town(1, probe_s=0.03, settings=one_batch)
    town.open()
    slow = next(node for node in town.nodes if node not in (town.leader(), town.controller()))
    began_s = town.world.now
    town.world.network.slow[slow.host] = 100.0
    assert town.world.run(lambda: slow.number not in town.placed().isr, began_s + 60)
    left_s = town.world.now
    town.live_on(3)
    assert town.longest_gap_ms(left_s) <= 300
    town.world.network.slow.clear()
    assert town.world.run(lambda: slow.number in town.placed().isr, town.world.now + 20)
    town.world.bury()


def test_without_a_majority_of_voters_leaders_go_on_and_changes_name_who_is_missing() -> None:
    stage = Stage(1, {"min.insync.replicas": "2"}, voters_apart=True)
    stage.write()
    stage.kill(1, 2)
    stage.write(is_idempotent=False)
    with pytest.raises(KafkaError, match="1 of 3 voters answer, 2 are needed"):
        stage.create_topic("later")
    stage.write(is_idempotent=False)
    stage.nothing_is_lost()
    stage.create_topic("later")
    stage.end()
