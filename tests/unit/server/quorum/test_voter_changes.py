"""The answer to a change of the voters, when another leader takes over before the change is replayed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.raft_voters import RemoveRaftVoterRequest
from ottla.raft.voters import VoterNode, VoterSet
from ottla.server.answers.watermark import Watermark
from ottla.server.quorum.voter_changes import VoterChanges

EPOCH, END_OFFSET = 3, 10
LEFT = VoterSet([VoterNode(2, UUID(int=2), ()), VoterNode(3, UUID(int=3), ())])


class Leader:
    """A leader that removes itself: its epoch is over as soon as the change is committed."""

    def __init__(self) -> None:
        self.replica = SimpleNamespace(epoch=EPOCH, voters_without=lambda key: LEFT)
        self.voters: VoterSet | None = None
        self.has_changed = asyncio.Event()

    def change_voters(self, voters: VoterSet) -> int:
        self.voters = voters
        self.has_changed.set()
        return END_OFFSET


@pytest.mark.parametrize(("keeps", "answer"), [(True, ErrorCode.NONE), (False, ErrorCode.REQUEST_TIMED_OUT)])
def test_a_change_is_made_if_the_next_leader_kept_it(keeps: bool, answer: ErrorCode) -> None:
    async def scenario() -> Any:
        kept = {(EPOCH, END_OFFSET): keeps}
        leader = Leader()
        replay = SimpleNamespace(replayed=Watermark(0), has_kept=lambda *record: kept[record])
        changes = VoterChanges(leader, replay)  # type: ignore[arg-type]
        removal = asyncio.ensure_future(changes.carry_out(RemoveRaftVoterRequest(None, 1, UUID(int=1))))
        await leader.has_changed.wait()
        leader.replica.epoch = EPOCH + 1
        replay.replayed.advance(END_OFFSET)
        return await removal

    assert asyncio.run(scenario()).error_code == answer
