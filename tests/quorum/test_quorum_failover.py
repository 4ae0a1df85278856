"""How long a quorum with its default settings is without a leader, on a network and disks as they mostly are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest
from tests.quorum.checks import Checks
from tests.quorum.cluster import US_PER_MS, Cluster
from tests.quorum.codec import unchanged
from tests.quorum.member import RaftMember, World
from tests.quorum.model_disk import RaftDisk, SimulatedLog

from ottla.raft.events import Disconnected, Leave
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet

SETTINGS = RaftSettings()
SEEDS = 20


def running_quorum(seed: int) -> World:
    """Three voters that have had a leader for a while."""
    cluster = Cluster(seed)
    voters = VoterSet([1, 2, 3])
    world = World(cluster, voters, SETTINGS, Checks(), {}, unchanged)
    for node_id in sorted(voters.ids):
        disk = RaftDisk(UUID(int=node_id), QuorumState(), SimulatedLog())
        world.members[node_id] = RaftMember(world, node_id, cluster.draw_clock(10), disk)
        world.members[node_id].start()
    assert cluster.schedule.run(5_000 * US_PER_MS, lambda: bool(established(world)))
    cluster.schedule.run(cluster.schedule.now_us + cluster.random.randint(1_000, 2_000) * US_PER_MS)
    return world


def established(world: World) -> list[RaftMember]:
    return [m for m in world.members.values() if m.replica is not None and m.replica.is_established]


def gap_ms(seed: int, end: Callable[[World, RaftMember], None]) -> int:
    """From the end of one leader to the moment when the next may decide."""
    world = running_quorum(seed)
    schedule = world.cluster.schedule
    (leader,) = established(world)
    began_us = schedule.now_us
    end(world, leader)
    is_back = schedule.run(
        began_us + 60_000 * US_PER_MS, lambda: any(m is not leader for m in established(world))
    )
    assert is_back
    return (schedule.now_us - began_us) // US_PER_MS


def resign(world: World, leader: RaftMember) -> None:
    leader.hear(Leave())


def die_noticed(world: World, leader: RaftMember) -> None:
    """The kernel closes the connections of a dead process, behind the last bytes that it sent."""
    leader.stop(is_power_loss=False)
    for member in world.members.values():
        if member is not leader:
            close = partial(member.hear, Disconnected(leader.node_id))
            world.cluster.schedule.after(world.cluster.network.longest_delay_us, close)


def die_silently(world: World, leader: RaftMember) -> None:
    """A machine without power says nothing."""
    world.cluster.network.part([leader.node_id], world.voters.ids)
    leader.stop(is_power_loss=True)


@pytest.mark.parametrize(
    ("end", "bound_ms"),
    [
        (resign, 100),
        (die_noticed, 2 * SETTINGS.disconnect_grace_ms + 200),
        (die_silently, SETTINGS.quorum.fetch_timeout_ms + SETTINGS.election_spread_ms + 250),
    ],
)
def test_the_next_leader_decides_within(end: Callable[[World, RaftMember], None], bound_ms: int) -> None:
    gaps = sorted(gap_ms(seed, end) for seed in range(SEEDS))
    assert gaps[-1] <= bound_ms, gaps
