"""AddRaftVoter and RemoveRaftVoter on the leader of the quorum (KIP-853): wait until the change may be made,
append it, wait until it is committed. `ottla.raft.membership` says what may be changed when.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.raft.messages import Endpoint, ReplicaKey
from ottla.raft.voters import VoterNode, VoterSet
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.member import QuorumMember
from ottla.server.quorum.replay import MetadataReplay

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 0.05
_REMOVAL_MS: Final = 5_000  # RemoveRaftVoter has no timeout of its own


class VoterChanges:
    """Carries changes out, one after the other."""

    def __init__(self, member: QuorumMember, replay: MetadataReplay) -> None:
        self._member = member
        self._replay = replay

    async def carry_out(self, request: Any) -> Any:
        """The answer to a change. NotControllerError if this node does not lead, and changed nothing."""
        is_addition = isinstance(request, AddRaftVoterRequest)
        response = AddRaftVoterResponse if is_addition else RemoveRaftVoterResponse
        try:
            if is_addition:
                await self._add(request)
            else:
                await self._remove(request)
        except KafkaError as error:
            if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise NotControllerError from None
            return response(error_code=error.code, error_message=error.message)
        return response(error_message=None)

    async def _add(self, request: AddRaftVoterRequest) -> None:
        endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners)
        if not endpoints:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A voter needs an address.")
        voter = VoterNode(request.voter_id, request.voter_directory_id, endpoints)
        await self._change(
            lambda: self._member.replica.voters_with(voter),
            request.timeout_ms,
            waits=request.ack_when_committed,
        )

    async def _remove(self, request: RemoveRaftVoterRequest) -> None:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        await self._change(lambda: self._member.replica.voters_without(key), _REMOVAL_MS)

    async def _change(self, plan: Callable[[], VoterSet], timeout_ms: int, *, waits: bool = True) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        voters = await self._planned(plan, deadline)
        epoch = self._member.replica.epoch
        end_offset = self._member.change_voters(voters)
        if self._member.voters != voters:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The change could not be written.")
        logger.info("the voters of the metadata quorum are %s from now on", sorted(voters.ids))
        if not waits:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._replay.replayed.reached(end_offset)
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The change was made here, and is not committed in time."
            ) from None
        # A leader that removed itself has resigned by now, and another one may lead already.
        if not self._replay.has_kept(epoch, end_offset):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Another leader took over, and may or may not have made the change.",
            )

    async def _planned(self, plan: Callable[[], VoterSet], deadline: float) -> VoterSet:
        """The changed set, once the change may be made."""
        while True:
            try:
                return plan()
            except KafkaError as error:
                is_over = asyncio.get_running_loop().time() >= deadline
                if error.code != ErrorCode.REQUEST_TIMED_OUT or is_over:
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)
