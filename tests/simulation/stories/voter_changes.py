"""Voters that are taken out and in again (KIP-853), in one story of ten, while everything else happens.

No disk is lost in such a story: after the first change a voter that lost its disk is replaced by hand, with its new
directory (`tests/simulation/test_voter_replacement.py`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tests.simulation.stories.clients import TROUBLE
from tests.simulation.stories.settings import HOSTS_PORT

if TYPE_CHECKING:
    from tests.simulation.stories.story import Story

    import ottla

# Not in every story, so that what the seeds of planted bugs find stays as it is.
CHANGES_EVERY: Final = 10
LOST_DISKS: Final = frozenset({"wipe", "wipe-any"})


class VoterChanges:
    """An administrator that takes one voter out at a time, and in again."""

    def __init__(self, story: Story, voters: int) -> None:
        self._story = story
        self._voters = range(1, voters + 1)
        self._is_ordered = False

    @property
    def are_due(self) -> bool:
        """Whether voters change in this story."""
        is_drawn = self._story.seed % CHANGES_EVERY == CHANGES_EVERY - 1 and not self._story.security.is_on
        return is_drawn and LOST_DISKS.isdisjoint(self._story.wanted_faults)

    async def run(self, until_s: float) -> None:
        """Have the administrator change voters until a moment."""
        dice, world = self._story.world.dice, self._story.world
        while True:
            await asyncio.sleep(dice.uniform(0.1, 1.0))
            if world.now >= until_s:
                return
            if not self._is_ordered:
                self._is_ordered = True
                self._story.administrator.order(self._change)

    async def begin(self, admin: ottla.Admin) -> None:
        """The first change, for which all voters have to be there, while nothing is broken yet."""
        if self.are_due:
            await self._change(admin)

    async def set_back(self, admin: ottla.Admin) -> None:
        """Make all of them voters again, however long it takes."""
        while True:
            with suppress(*TROUBLE):
                if await self._add_missing(admin):
                    return
            await asyncio.sleep(0.2)

    async def _change(self, admin: ottla.Admin) -> None:
        self._is_ordered = False
        quorum = await admin.describe_quorum()
        if len(quorum.voters) < len(self._voters):
            await self._add_missing(admin)
            return
        voter = self._story.world.dice.choice(quorum.voters)
        self._story.say(f"n{voter.node_id} is to vote no more")
        await admin.remove_voter(voter.node_id, voter.directory_id)
        self._story.ledger.counts["voters removed"] += 1

    async def _add_missing(self, admin: ottla.Admin) -> bool:
        """Whether all of them vote."""
        quorum = await admin.describe_quorum()
        voting = {voter.node_id for voter in quorum.voters}
        for observer in quorum.observers:
            number = observer.node_id
            if number in self._voters and number not in voting:
                self._story.say(f"n{number} is to vote again")
                await admin.add_voter(number, observer.directory_id, f"127.0.0.1:{HOSTS_PORT + number}")
                self._story.ledger.counts["voters added"] += 1
                voting.add(number)
        return len(voting) == len(self._voters)
