"""Nodes that hear and are not heard, or the other way round, and nodes that stand still (REP-10): writes with acks=all
go on within seconds, do not stop again while it lasts, and everybody comes back without help.

Shipped nodes with default settings.
"""

from __future__ import annotations

import pytest
from tests.simulation.stories.town import Town
from tests.simulation.world.node import Node

pytestmark = pytest.mark.timeout(300)

# Until a node counts as gone (2.5 s), or a follower as silent (3 s) and its leader steps down (twice that), and an
# election.
GONE_MS = 4_000
SILENT_MS = 9_000


def way(town: Town, source: Node, target: Node) -> None:
    """Nothing arrives that one sends to the other."""
    town.world.network.cut(source.host, target.host)


def town_with(role: str) -> tuple[Town, Node]:
    """A town, and its node of this role: a leader, which may be the controller, or not, or neither of both."""
    town = Town(1, probe_s=0.05)
    town.open(leads_from_controller=role == "leader and controller")
    leader, controller = town.leader(), town.controller()
    if role == "controller":
        return town, controller
    if role == "follower":
        return town, next(node for node in town.nodes if node not in (leader, controller))
    return town, leader


def goes_on_writing(town: Town, began_s: float, bound_ms: int) -> None:
    """Writes go on within the bound, do not stop again while the cut lasts, and all replicas come back after it."""
    town.live_on(12)
    assert town.longest_gap_ms(began_s) <= bound_ms
    settled_s = town.world.now
    town.live_on(5)
    assert town.longest_gap_ms(settled_s) <= 1_000
    town.world.network.heal_all()
    comes_back(town)


def comes_back(town: Town) -> None:
    everybody = {node.number for node in town.nodes}
    assert town.world.run(lambda: set(town.placed().isr) == everybody, town.world.now + 10)
    town.world.bury()


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize("role", ["leader", "controller", "leader and controller", "follower"])
def test_a_node_that_the_others_hear_and_that_hears_none_or_the_other_way_round(
    role: str, is_heard: bool
) -> None:
    town, victim = town_with(role)
    began_s = town.world.now
    for other in town.nodes:
        if other is not victim:
            way(town, *((other, victim) if is_heard else (victim, other)))
    goes_on_writing(town, began_s, SILENT_MS)


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize(
    "pair", [("leader", "follower"), ("leader", "controller"), ("controller", "follower")]
)
def test_two_nodes_of_which_one_is_not_heard_by_the_other(pair: tuple[str, str], is_heard: bool) -> None:
    town, leader = town_with("leader")
    controller = town.controller()
    follower = next(node for node in town.nodes if node not in (leader, controller))
    nodes = {"leader": leader, "controller": controller, "follower": follower}
    one, other = (nodes[name] for name in pair)
    began_s = town.world.now
    way(town, *((one, other) if is_heard else (other, one)))
    goes_on_writing(town, began_s, SILENT_MS)


@pytest.mark.parametrize("role", ["leader", "controller", "leader and controller", "follower"])
def test_a_process_that_stands_still_is_replaced_and_comes_back_when_it_goes_on(role: str) -> None:
    town, victim = town_with(role)
    began_s = town.world.now
    assert victim.process is not None
    victim.process.pause()
    town.live_on(8)
    assert victim.number not in town.placed().isr
    assert town.longest_gap_ms(began_s) <= GONE_MS
    victim.process.go_on()
    comes_back(town)
