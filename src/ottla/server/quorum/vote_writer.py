"""Writes the votes of one voter to its disk, in order.

A vote that cannot be written for lack of room is tried again: nothing is promised before it is on the disk, so a
voter can wait for room. Any other failure leaves the content of the disk unknown, and is the caller's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.raft.events import PersistVote
from ottla.runtime.disk import is_out_of_room
from ottla.runtime.threads import Executor
from ottla.server.quorum.state_file import QuorumStateFile

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.3


class VoteWriter:
    """One voter's. `thread` runs one write after the other. `on_waiting` hears of every write that found no room.

    A voter that is alone cannot wait: nobody else leads.
    """

    def __init__(
        self, file: QuorumStateFile, thread: Executor, on_waiting: Callable[[], None], *, is_alone: bool
    ) -> None:
        self._file = file
        self._thread = thread
        self._on_waiting = on_waiting
        self._is_alone = is_alone
        self._newest = 0
        self.is_waiting_for_room = False
        self._is_stopped = False

    def stop(self) -> None:
        """Wait for room no more."""
        self._is_stopped = True

    async def write(self, effect: PersistVote) -> bool:
        """Return when the vote is durable; False if a newer one took its place. OSError if the disk fails."""
        self._newest = effect.number
        loop = asyncio.get_running_loop()
        while not self._is_stopped and effect.number == self._newest:
            try:
                await loop.run_in_executor(self._thread, self._file.write, effect.state)
                self.is_waiting_for_room = False
                return True
            except OSError as problem:
                if self._is_alone or not is_out_of_room(problem):
                    raise
                self.is_waiting_for_room = True
                self._on_waiting()
                logger.error("the vote cannot be written, this voter says nothing before it is: %s", problem)
            await asyncio.sleep(_PAUSE_S)
        return False
