"""The metadata quorum as the rest of the broker sees it: the image, and a place to submit what shall change.

The leader of the quorum is the active controller: it alone decides (`commands`). Any node takes a command and
forwards it (`forwarding`), and waits for a controller while there is none. Committed records are replayed and
carried out on every node (`replay`). A command is tried again only if it certainly was not carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.controller.commands import Metered
from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_BROKER_EPOCH, NO_NODE
from ottla.protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from ottla.protocol.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from ottla.raft.messages import METADATA_TOPIC, METADATA_TOPIC_ID, SnapshotId
from ottla.runtime.clock import monotonic_ms
from ottla.security.quota.mutations import Asker, MutationQuota, MutationQuotas
from ottla.server.quorum.commands import Commands, NotControllerError
from ottla.server.quorum.forwarding import forward
from ottla.server.quorum.member import QuorumMember
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.replay import MetadataReplay
from ottla.server.quorum.voter_changes import VoterChanges

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch import FetchRequest
    from ottla.protocol.messages.quorum import DescribeQuorumResponse

logger = logging.getLogger(__name__)

# Voters of a new quorum have no memory, too, until each has heard of all others.
_LOST_PATIENCE_MS: Final = 3_000

# A controller that cannot be reached, or that has just lost its place, is tried again after this pause.
_RETRY_S: Final = 0.02
# A request without a timeout waits this long, and none waits longer: without a controller the error message
# below helps a caller more.
_PATIENCE_MS: Final = 10_000
_LEAST_FORWARD_MS: Final = 5_000

# The requests that `controller_mutation_rate` limits, and the versions since which their clients know the error
# THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_SINCE: Final[dict[type[Any], int]] = {
    CreateTopicsRequest: 6,
    DeleteTopicsRequest: 5,
    CreatePartitionsRequest: 3,
}

ControllerWatcher = Callable[[], None]


class Quorum:
    """One node's part in the quorum. `broker_epoch` is that of this broker's registration."""

    def __init__(
        self,
        member: QuorumMember,
        replay: MetadataReplay,
        peers: Peers,
        now_ms: Callable[[], int],
        on_halt: Callable[[str], None],
        mutation_quotas: MutationQuotas,
    ) -> None:
        self.member = member
        self._replay = replay
        self.peers = peers
        self._now_ms = now_ms
        self._on_halt = on_halt
        self._mutation_quotas = mutation_quotas
        self._commands = Commands(member, replay, now_ms)
        self._voter_changes = VoterChanges(member, replay)
        self._watchers: list[ControllerWatcher] = []
        self._changed = asyncio.Event()
        self._failure: KafkaError | None = None
        self._told_leader_id: int | None = None
        self.former_leader_id: int | None = None  # the last controller that this node knew beside itself
        self._is_directory_offline = False
        self._told_lost_memory = False
        self._lost_since_ms: int | None = None
        self.broker_epoch = NO_BROKER_EPOCH  # of the registration of this start, once there is one
        self.elections = 0  # that this node has heard of
        self.answered_ms = 0  # when the controller last answered a heartbeat, by the monotonic clock

    # ---- what it is

    @property
    def image(self) -> ClusterImage:
        """The cluster as of the last committed record that is known here."""
        return self._replay.controller.image

    @property
    def node_id(self) -> int:
        return self.member.replica.node_id

    @property
    def is_controller(self) -> bool:
        """Whether this node decides."""
        return self._commands.is_open

    @property
    def controller_id(self) -> int:
        """The active controller, as far as is known here; -1 if there is none."""
        leader_id = self.member.replica.leader_id
        return NO_NODE if leader_id is None else leader_id

    @property
    def is_frozen(self) -> bool:
        """Whether the image here stays behind, because the disk has no room for newer records, and others go on."""
        return self.member.is_out_of_room and not self.member.is_alone

    @property
    def may_be_replaced(self) -> bool:
        """Whether other brokers may lead what this one led, before the image here says so."""
        return self.is_frozen or (self._is_directory_offline and not self.member.is_alone)

    def directory_is(self, is_offline: bool) -> None:
        """The log directory takes no writes, which the controller is told, or takes them again."""
        self._is_directory_offline = is_offline

    def registered(self, broker_epoch: int) -> None:
        """The controller registered this start of the broker under an epoch."""
        self.broker_epoch = broker_epoch

    def answered(self) -> None:
        """The controller answered a heartbeat: this node reaches it, and is heard. Without room it learns nothing."""
        if not self.is_frozen:
            self.answered_ms = monotonic_ms()

    def watch(self, watcher: ControllerWatcher) -> None:
        """Be told, on the loop, whenever another node becomes the active controller, or none."""
        self._watchers.append(watcher)

    def describe_trouble(self) -> str:
        """Why there is no controller, and what to do about it; empty if there is one."""
        if self._failure is not None:
            return self._failure.message
        member = self.member
        if self.controller_id != NO_NODE:
            return ""
        voters = sorted(member.voters.ids)
        answering = [voter for voter in voters if self._answers(voter)]
        silent = [voter for voter in voters if voter not in answering]
        founders = member.unheard_founders
        if founders:
            missing = ", ".join(map(self.peers.name_of, founders))
            return (
                f"There is no controller yet: a new quorum is founded when {missing} answers, too, or by a majority "
                "of voters whose directories were prepared with ottla format."
            )
        if self._is_memory_lost:
            return self._describe_lost_memory()
        if not silent:
            return f"There is no controller: the {len(voters)} voters are electing one."
        missing = ", ".join(map(self.peers.name_of, silent))
        return (
            f"There is no controller: {len(answering)} of {len(voters)} voters answer, {member.voters.majority} are "
            f"needed. Start {missing}."
        )

    def _answers(self, voter: int) -> bool:
        return voter == self.node_id or self.peers.is_connected(voter)

    @property
    def _forgetful_voters(self) -> list[int]:
        """The voters that are there and have forgotten their votes. What one that is gone said last may be long ago:
        before it earned its vote back.
        """
        return [voter for voter in self.member.replica.forgetful_voters if self._answers(voter)]

    @property
    def _is_memory_lost(self) -> bool:
        """Whether a majority of voters has forgotten its votes, and the quorum is not merely new."""
        replica = self.member.replica
        has_voted = replica.epoch > 0 and replica.leader_id is None
        return has_voted and self.member.voters.is_majority(self._forgetful_voters)

    def _describe_lost_memory(self) -> str:
        lost = ", ".join(map(self.peers.name_of, self._forgetful_voters))
        return (
            f"No controller can be elected: {lost} lost their disks or votes, and a majority of voters must remember "
            "theirs. Start one of them with the directory that it had; if there is none, docs/cluster.md, Recovering, "
            "says how to give up the metadata that only they had."
        )

    def describe(self) -> DescribeQuorumResponse:
        """This node's knowledge of the quorum; the leader knows all."""
        time_of_day_ms = self._now_ms() - self.member.now_ms()
        return self.member.describe(time_of_day_ms)

    # ---- its life

    def start(self) -> None:
        """Take part in the quorum, and take commands."""
        self._replay.start(self.halted)
        self._commands.start()
        self.member.start(self)

    def deliver(self, image: ClusterImage) -> None:
        """Have changes carried out on this node from now on; `image` is carried out already."""
        self._replay.deliver(image)

    async def leave(self) -> None:
        """Hand the leadership over, if this node has it, and tell the others."""
        await self.member.leave()

    async def stop(self) -> None:
        """Finish the command under way and refuse the rest."""
        await self._commands.stop()
        await self._replay.stop()
        await self.member.stop()

    async def replayed(self, offset: int) -> None:
        """Return when the record at an offset is part of the image."""
        await self._replay.replayed.reached(offset + 1)

    async def in_force(self, offset: int) -> None:
        """Return when the record at an offset is carried out on this node."""
        await self._replay.in_force(offset + 1)

    async def has_controller(self) -> None:
        """Return when there is a controller. KafkaError if this node cannot take part any more."""
        while self.controller_id == NO_NODE:
            if self._failure is not None:
                raise self._failure
            await self._changed.wait()

    # ---- commands

    async def submit(
        self,
        request: Any,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
        asker: Asker | None = None,
    ) -> Any:
        """Have a command carried out; answer its response once the change is durable, and in force on the
        controller.

        `version` is the one that a client, `asker`, chose for its request. KafkaError if there is no controller,
        or if it is not known whether it was carried out.
        """
        wanted_ms = getattr(request, "timeout_ms", _PATIENCE_MS) if timeout_ms is None else timeout_ms
        # Once the controller has it, a command takes as long as it takes.
        forward_ms = max(wanted_ms, _LEAST_FORWARD_MS) if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(wanted_ms, _PATIENCE_MS) / 1000
        while True:
            changed = self._changed
            try:
                return await self._submit_once(request, version, forward_ms, asker)
            except NotControllerError:
                if self._failure is not None:
                    raise self._failure from None
            if loop.time() >= deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    self.describe_trouble() or "The controller cannot be reached.",
                )
            await self._pause(changed, deadline)

    def submit_soon(self, request: Any, asker: Asker | None = None) -> asyncio.Task[Any]:
        """Have a command carried out, whether or not a caller waits for its response."""
        task = asyncio.get_running_loop().create_task(self.submit(request, asker=asker))
        task.add_done_callback(_log_failure)
        return task

    async def decide(self, request: Any, version: int | None = None, asker: Asker | None = None) -> Any:
        """Carry a command out here. NotControllerError if this node does not decide, and did not."""
        if not self.is_controller:
            raise NotControllerError
        if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest):
            return await self._voter_changes.carry_out(request)
        quota = None if asker is None else self._quota_of(request, version, asker)
        if quota is None:
            return await self._commands.put(request)
        response = await self._commands.put(Metered(request, quota.charge))
        return replace(response, throttle_time_ms=quota.throttle_ms)

    def _quota_of(self, request: Any, version: int | None, asker: Asker) -> MutationQuota | None:
        strict_since = _STRICT_SINCE.get(type(request))
        if strict_since is None:
            return None
        is_strict = version is None or version >= strict_since
        quotas = self.image.client_quotas
        return self._mutation_quotas.of_request(quotas, asker, monotonic_ms(), is_strict=is_strict)

    async def _submit_once(
        self, request: Any, version: int | None, forward_ms: int, asker: Asker | None
    ) -> Any:
        if self.is_controller:
            return await self.decide(request, version, asker)
        controller_id = self.controller_id
        if controller_id in (NO_NODE, self.node_id):
            raise NotControllerError
        return await self._forward(controller_id, request, version, forward_ms, asker)

    async def _forward(
        self, controller_id: int, request: Any, version: int | None, timeout_ms: int, asker: Asker | None
    ) -> Any:
        """Ask the controller, as long as it is the controller: a new one need not wait for the silence of the
        old. The removal of the controller itself is answered by the one that is removed.
        """
        if isinstance(request, RemoveRaftVoterRequest) and request.voter_id == controller_id:
            return await forward(self.peers, controller_id, request, version, timeout_ms, asker)
        asked = asyncio.ensure_future(forward(self.peers, controller_id, request, version, timeout_ms, asker))
        try:
            while self.controller_id == controller_id and not asked.done():
                waiting: set[asyncio.Future[Any]] = {asked, asyncio.ensure_future(self._changed.wait())}
                _, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in pending - {asked}:
                    each.cancel()
            if asked.done():
                return asked.result()
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"Node {controller_id} is not the controller any more, and may or may not have done it.",
            )
        finally:
            asked.cancel()

    async def _pause(self, changed: asyncio.Event, deadline: float) -> None:
        """Until another controller is known, or for a moment: the one that is known may answer now."""
        left_s = deadline - asyncio.get_running_loop().time()
        wait_s = _RETRY_S if self.controller_id not in (NO_NODE, self.node_id) else left_s
        try:
            async with asyncio.timeout(min(wait_s, left_s)):
                await changed.wait()
        except TimeoutError:
            pass

    # ---- questions of other nodes

    def is_metadata_fetch(self, request: FetchRequest) -> bool:
        """Whether a fetch is of the metadata log; asked for every fetch."""
        topics = request.topics
        return bool(topics) and (topics[0].topic_id == METADATA_TOPIC_ID or topics[0].topic == METADATA_TOPIC)

    async def answer(self, context: Any, request: Any) -> Any:
        """Answer Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot, and Fetch of the metadata log."""
        response = await self.member.answer(request)
        self._watch_memory()
        return response

    def _watch_memory(self) -> None:
        """Say that a majority has forgotten its votes, once, and not while a new quorum is being founded."""
        now_ms = self.member.now_ms()
        if not self._is_memory_lost:
            self._lost_since_ms, self._told_lost_memory = None, False
        elif self._lost_since_ms is None:
            self._lost_since_ms = now_ms
        elif not self._told_lost_memory and now_ms - self._lost_since_ms >= _LOST_PATIENCE_MS:
            self._told_lost_memory = True
            logger.error("%s", self._describe_lost_memory())

    # ---- what the member tells

    def committed(self, high_watermark: int) -> None:
        self._replay.committed(high_watermark)

    def led_by(self, leader_id: int | None, epoch: int) -> None:
        # A quorum of one has nothing to report, and that there is still no leader is no news.
        is_news = leader_id is not None or self._told_leader_id is not None
        if is_news and not self.member.is_alone:
            logger.info("the metadata quorum is led by %s in epoch %d", _name(leader_id), epoch)
        if self._told_leader_id is not None and self._told_leader_id != self.node_id:
            self.former_leader_id = self._told_leader_id
        self._told_leader_id = leader_id
        self.elections += leader_id is not None
        if leader_id != self.node_id:
            self._commands.shut(
                KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the controller any more.")
            )
        self._tell()

    def established(self, epoch: int) -> None:
        if not self.member.is_alone:
            logger.info("this node is the active controller in epoch %d", epoch)
        self._commands.open()
        self._tell()

    def load(self, snapshot_id: SnapshotId) -> None:
        self._replay.load(snapshot_id)

    def failed(self, reason: KafkaError) -> None:
        self._failure = reason
        self._commands.shut(reason)
        self._tell()
        if not self.member.is_alone:
            # Others can do without this node, and better without one that cannot write.
            self._on_halt(reason.message)

    def halted(self, reason: str) -> None:
        self._failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        self._commands.shut(self._failure)
        self._replay.fail(self._failure)
        self._tell()
        self._on_halt(reason)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for watcher in self._watchers:
            watcher()


def _name(leader_id: int | None) -> str:
    return "nobody" if leader_id is None else f"node {leader_id}"


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a command failed: %s", error)
