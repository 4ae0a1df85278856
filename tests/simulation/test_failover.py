"""How long a partition takes no writes with acks=all when its leader goes: shipped brokers with default settings, on a
network and disks as they mostly are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.stories.town import Town
from tests.simulation.world.node import Node

pytestmark = pytest.mark.timeout(300)

SEEDS = 6


def kill(node: Node) -> None:
    node.kill()


def fall_silent(node: Node) -> None:
    """A machine without power says nothing."""
    node.kill(loses_power=True)


def gap_ms(seed: int, end: Callable[[Node], None], *, is_controller: bool) -> int:
    """From the end of a leader to the answer to the first write that was sent later."""
    town = Town(seed)
    town.open(leads_from_controller=is_controller)
    leader, world = town.leader(), town.world
    assert (leader is town.controller()) is is_controller
    began_s = world.now
    end(leader)
    assert world.run(lambda: town.acknowledged[0][-1] > began_s and town.leader() is not leader, began_s + 60)
    took_s = world.now - began_s
    world.bury()
    return int(took_s * 1000)


@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize(("end", "bound_ms"), [(Node.stop, 150), (kill, 600), (fall_silent, 3_000)])
def test_writes_go_on_within(end: Callable[[Node], None], bound_ms: int, is_controller: bool) -> None:
    gaps = sorted(gap_ms(seed, end, is_controller=is_controller) for seed in range(SEEDS))
    assert gaps[-1] <= bound_ms, gaps
