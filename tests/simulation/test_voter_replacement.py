"""A voter that lost its disk is replaced while a client writes: shipped nodes on simulated disks (KIP-853)."""

from __future__ import annotations

import pytest
from tests.simulation.stories.settings import HOSTS_PORT, bootstrap
from tests.simulation.stories.town import NODES, Town
from tests.simulation.stories.vote_review import VoteReview

import ottla

pytestmark = pytest.mark.timeout(300)


async def _replace(lost: int) -> None:
    """As an administrator: the lost disk votes no more, the new one does."""
    async with ottla.Admin(bootstrap(NODES)) as admin:
        quorum = await admin.describe_quorum()
        (new,) = (each for each in quorum.observers if each.node_id == lost)
        (old,) = (each for each in quorum.voters if each.node_id == lost)
        assert new.directory_id != old.directory_id
        await admin.remove_voter(lost, old.directory_id)
        await admin.add_voter(lost, new.directory_id, f"127.0.0.1:{HOSTS_PORT + lost}")


async def _name_directories(node_id: int) -> None:
    """Take a voter out and in again: the log names the voters from then on."""
    async with ottla.Admin(bootstrap(NODES)) as admin:
        quorum = await admin.describe_quorum()
        (voter,) = (each for each in quorum.voters if each.node_id == node_id)
        await admin.remove_voter(node_id, voter.directory_id)
        await admin.add_voter(node_id, voter.directory_id, f"127.0.0.1:{HOSTS_PORT + node_id}")


@pytest.mark.parametrize("seed", range(2))
def test_a_voter_is_replaced_under_load_and_another_may_be_lost_then(seed: int) -> None:
    town = Town(seed)
    world, broken = town.world, list[str]()
    with VoteReview(town.nodes, broken.append).listening():
        town.open()
        lost, kept = town.nodes[0], town.nodes[1:]
        world.complete(town.client, _name_directories(kept[0].number), world.now + 20)
        lost.kill()
        lost.wipe()
        lost.start()
        assert world.run(lambda: lost.is_ready, world.now + 30)
        world.complete(town.client, _replace(lost.number), world.now + 20)
        assert lost.broker is not None
        member = lost.broker.quorum.member
        assert world.run(lambda: member.replica.can_vote, world.now + 10)
        # The new disk's vote is needed from now on.
        kept[0].kill()
        before = len(town.acknowledged[0])
        assert world.run(lambda: len(town.acknowledged[0]) > before + 20, world.now + 30)
    assert not broken
    world.bury()
