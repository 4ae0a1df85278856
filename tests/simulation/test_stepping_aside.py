"""A broken part steps aside (REP-10): how long writes with acks=all stand still when a disk fails or is full.

Shipped nodes with default settings; three partitions, so that every node leads one.
"""

from __future__ import annotations

import pytest
from tests.simulation.stories.town import Town

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("seed", range(2))
def test_a_controller_whose_disk_fails_halts_and_writes_go_on(seed: int) -> None:
    town = Town(seed, partitions=3)
    town.open()
    broken = town.controller()
    began_s = town.world.now
    broken.disk.writes_fail = True
    town.live_on(2)
    assert not broken.is_running
    assert "Input/output error" in (broken.failure or "")
    assert town.longest_gap_ms(began_s) <= 1_000
    town.world.bury()


@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_node_whose_disk_is_full_leaves_at_once_and_comes_back_when_there_is_room(
    seed: int, is_controller: bool
) -> None:
    town = Town(seed, partitions=3)
    town.open()
    controller = town.controller()
    full = controller if is_controller else next(node for node in town.nodes if node is not controller)
    began_s = town.world.now
    full.disk.is_full = True
    town.live_on(3)
    assert all(full.number not in town.placed(index).isr for index in range(3))
    assert town.longest_gap_ms(began_s) <= 300
    full.disk.is_full = False
    began_s = town.world.now
    assert town.world.run(
        lambda: all(full.number in town.placed(index).isr for index in range(3)), began_s + 4
    )
    assert full.is_ready
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
