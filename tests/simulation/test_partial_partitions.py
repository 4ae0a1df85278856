"""Nodes that see different majorities of the cluster (REP-10): writes with acks=all go on within seconds.

Shipped nodes with default settings. Every two nodes either reach each other or do not.
"""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.simulation.stories.town import Town
from tests.simulation.world.node import Node

pytestmark = pytest.mark.timeout(300)

# The silence after which a follower leaves (3 s), twice that after which a leader steps down, and an election.
LONGEST_GAP_MS = 9_000


def cut(town: Town, one: Node, other: Node) -> None:
    town.world.network.cut(one.host, other.host)
    town.world.network.cut(other.host, one.host)


def goes_on_writing(town: Town, began_s: float) -> None:
    """Writes go on, with pauses that end, and do not stop again while the cut lasts."""
    town.live_on(12)
    assert town.longest_gap_ms(began_s) <= LONGEST_GAP_MS
    settled_s = town.world.now
    town.live_on(5)
    assert town.longest_gap_ms(settled_s) <= 1_000
    town.world.network.heal_all()
    town.live_on(10)
    assert set(town.placed().isr) == {node.number for node in town.nodes}
    town.world.bury()


@pytest.mark.parametrize(("pair", "leads_from_controller"), [(0, False), (1, False), (2, False), (0, True)])
def test_a_chain_of_three_in_which_the_ends_do_not_see_each_other(
    pair: int, leads_from_controller: bool
) -> None:
    town = Town(pair, probe_s=0.1)
    town.open(leads_from_controller=leads_from_controller)
    leader = town.leader()
    others = sorted(
        (node for node in town.nodes if node is not leader), key=lambda node: not node.is_controller
    )
    began_s = town.world.now
    cut(town, *list(combinations([leader, *others], 2))[pair])
    goes_on_writing(town, began_s)


@pytest.mark.parametrize("leads_from_controller", [True, False])
def test_a_ring_of_five_in_which_each_sees_only_its_neighbours(leads_from_controller: bool) -> None:
    town = Town(1, nodes=5, probe_s=0.02)
    town.open(leads_from_controller=leads_from_controller)
    began_s = town.world.now
    # The controller, the leader beside it, if that is another one, and the rest.
    leader = town.leader()
    order = sorted(town.nodes, key=lambda node: (not node.is_controller, node is not leader))
    for (place, one), (far, other) in combinations(enumerate(order), 2):
        if (far - place) % len(order) not in (1, len(order) - 1):
            cut(town, one, other)
    goes_on_writing(town, began_s)
