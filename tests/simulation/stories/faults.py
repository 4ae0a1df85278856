"""The faults of a story, by name. Each is a coroutine that breaks something, waits, and heals it.

Several run at once: nearly all losses that were ever found here needed two faults that met. What a fault leaves broken
when the story's time of faults is over is healed by `Faults.heal_all`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.stories.deeds import Deeds
from tests.simulation.stories.disk_faults import DiskFaults
from tests.simulation.stories.fault_kind import FaultTable
from tests.simulation.stories.losses import Losses
from tests.simulation.stories.network_faults import NetworkFaults
from tests.simulation.stories.process_faults import ProcessFaults
from tests.simulation.stories.security import SecurityFaults

if TYPE_CHECKING:
    from tests.simulation.stories.story import Story


class Faults:
    """What can happen to a story's cluster and clients."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.losses = losses = Losses(story)
        self._deeds = Deeds(story, losses)
        kinds = (ProcessFaults, DiskFaults, NetworkFaults)
        self._security = SecurityFaults(story, losses)
        self._kinds = (*(kind(story, losses) for kind in kinds), self._deeds, self._security)

    def table(self) -> FaultTable:
        """Name → how often it is drawn, what it does."""
        return {name: entry for kind in self._kinds for name, entry in kind.table().items()}

    def heal_all(self) -> None:
        """Take everything back that a cluster cannot heal by itself."""
        self._story.say("heal everything")
        self._story.administrator.order(self._deeds.set_back)
        if self._story.security.is_on:
            self._story.administrator.order(self._security.set_back)
        if self._story.voter_changes.are_due:
            self._story.administrator.order(self._story.voter_changes.set_back)
        self._story.world.network.heal_all()
        for client in self._story.clients:
            client.process.go_on()
        for node in self._story.nodes:
            disk = node.disk
            disk.is_full = disk.reads_fail = disk.syncs_fail = disk.writes_fail = False
            disk.crash_after = None
            node.slowness = 1.0
            node.set_clock(0.0)  # a broker whose clock is hours behind refuses records from the future
            if node.process is not None:
                node.process.go_on()
            if node.is_running and (disk.has_failed or node.has_halted):
                node.kill()
            if not node.is_running:
                node.start()
