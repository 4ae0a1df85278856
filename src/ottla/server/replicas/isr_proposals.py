"""Carries proposals of ISR changes to the controller, and its answers back (AlterPartition, KIP-497).

The proposals of one turn of the loop go out in one request; while it is under way the next request is
gathered. A request without an answer leaves the fate of its proposals unknown, and the replicas hear so:
each proposal is answered exactly once. One timer for all partitions counts the time of slow followers and
repeats refused proposals.

The same timer tells each replica how long no controller has been known, and whether its log takes writes.
replication/isolation.py decides about that; a leader that steps down does so through the
controller, too.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.model import LEAVING_BROKER_EPOCH
from ottla.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopicData,
    BrokerState,
)
from ottla.replication.isolation import ControllerSilent, FlushHangs, LogBroken, LogWorks, StepDown, step_down
from ottla.replication.isr import IsrAnswered, ProposeIsr
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.ordered_set import OrderedSet
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum

logger = logging.getLogger(__name__)

# However long followers may lag: proposals that were refused are tried again, and broken logs noticed, within
# this.
_LONGEST_TICK_MS: Final = 500
# After this many partitions a tick lets requests have their turn.
_PARTITIONS_PER_TURN: Final = 64
_RECOVERED: Final = 0


class _Change(NamedTuple):
    """A proposal for one partition."""

    topic_id: UUID
    partition_index: int
    proposal: ProposeIsr


class Isr:
    """The proposals of one broker."""

    def __init__(self, config: BrokerConfig, quorum: Quorum, partitions: Partitions) -> None:
        self._node_id = config.node.id
        self._tick_s = min(config.replication.lag_time_max_ms / 2, _LONGEST_TICK_MS) / 1000
        self._quorum = quorum
        self._partitions = partitions
        self._proposals: dict[HostedPartition, ProposeIsr] = {}
        self._failing: OrderedSet[HostedPartition] = OrderedSet()
        # How far logs were flushed of which records wait for that, and since when no further.
        self._unflushed: dict[HostedPartition, tuple[int, int]] = {}
        self._flush_patience_ms = 2 * config.replication.silence_max_ms
        self._resignations: list[_Change] = []
        self._given_up: set[_Change] = set()
        self._started_ms = 0
        # Changes that the controller agreed to.
        self.shrinks = 0
        self.expansions = 0
        self._sending: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Carry proposals to the controller from now on."""
        self._started_ms = monotonic_ms()
        self._ticking = asyncio.get_running_loop().create_task(self._tick())
        self._send_soon()

    async def stop(self) -> None:
        """Stop at once: the controller takes a stopping broker's leaderships over."""
        tasks = [task for task in (self._ticking, self._sending) if task is not None]
        self._ticking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def propose(self, partition: HostedPartition, effect: ProposeIsr | StepDown) -> None:
        """Ask the controller for this ISR; to step down with the next tick."""
        if isinstance(effect, StepDown):
            self._resignations.append(_Change(partition.topic_id, partition.index, effect.proposal))
            return
        self._proposals[partition] = effect
        self._send_soon()

    def _send_soon(self) -> None:
        if self._ticking is not None and self._sending is None and self._proposals:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        """Send what there is, until there is nothing more."""
        try:
            while self._proposals:
                proposals, self._proposals = self._proposals, {}
                answers = await self._ask(
                    _Change(partition.topic_id, partition.index, proposal)
                    for partition, proposal in proposals.items()
                )
                now_ms = monotonic_ms()
                for partition, proposal in proposals.items():
                    answer = _answered(proposal, answers, partition)
                    self._count(partition, answer)
                    _tell(partition, answer)
                    if not partition.is_closed:
                        partition.step(answer, now_ms)
        finally:
            self._sending = None

    def _count(self, partition: HostedPartition, answer: IsrAnswered) -> None:
        if answer.error is ErrorCode.NONE:
            self.shrinks += len(answer.proposal.isr) < len(partition.replica.isr)
            self.expansions += len(answer.proposal.isr) > len(partition.replica.isr)

    async def _ask(self, changes: Iterable[_Change]) -> "ErrorCode | dict[tuple[UUID, int], Any]":
        """The controller's answers by partition, or the one error that answers all of them."""
        topics: dict[UUID, AlterPartitionTopicData] = {}
        for topic_id, index, proposal in changes:
            topic = topics.setdefault(topic_id, AlterPartitionTopicData(topic_id=topic_id))
            topic.partitions.append(self._data(index, proposal))
        request = AlterPartitionRequest(self._node_id, self._quorum.broker_epoch, list(topics.values()))
        try:
            response = await self._quorum.submit(request)
        except KafkaError as error:
            return error.code
        except Exception:
            logger.exception("asking the controller for other in-sync replicas failed")
            return ErrorCode.REQUEST_TIMED_OUT
        if response.error_code:
            return ErrorCode(response.error_code)
        return {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }

    def _data(self, index: int, proposal: ProposeIsr) -> AlterPartitionPartitionData:
        epochs = zip(proposal.isr, proposal.broker_epochs, strict=True)
        own_epoch = self._quorum.broker_epoch
        return AlterPartitionPartitionData(
            partition_index=index,
            leader_epoch=proposal.leader_epoch,
            new_isr=list(proposal.isr),
            new_isr_with_epochs=[
                BrokerState(
                    member, own_epoch if member == self._node_id and epoch != LEAVING_BROKER_EPOCH else epoch
                )
                for member, epoch in epochs
            ],
            leader_recovery_state=_RECOVERED,
            partition_epoch=proposal.partition_epoch,
        )

    # Time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            try:
                await self._tick_all()
                self._look_at_logs()
                self._look_at_flushes()
                await self._step_down()
            except Exception:
                logger.exception(
                    "looking after the in-sync replicas failed; the next turn is in %.1f s", self._tick_s
                )

    async def _tick_all(self) -> None:
        now_ms = monotonic_ms()
        # Not whether a controller is known: one that this node hears, and does not reach, elects other leaders.
        silent = ControllerSilent(now_ms - max(self._started_ms, self._quorum.answered_ms))
        for count, partition in enumerate(self._partitions):
            if partition.replica.followers and not partition.is_closed:
                now_ms = monotonic_ms()
                partition.tick(now_ms)
                partition.step(silent, now_ms)
            if count % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)

    # Broken logs

    def _look_at_logs(self) -> None:
        """Tell each replica whose log refuses writes, and each whose log takes them again."""
        failing, self._failing = self._failing, OrderedSet()
        for partition in self._partitions:
            log = partition.log
            if (log.status.refusal is None and not log.status.is_failing) or partition.is_closed:
                continue
            self._failing.add(partition)
            partition.step(LogBroken(is_lasting=log.status.refusal is not None), monotonic_ms())
        for partition in failing.without(self._failing):
            partition.step(LogWorks(), monotonic_ms())

    def _look_at_flushes(self) -> None:
        """Tell each leader for whose flush records have waited for twice as long as for a silent follower."""
        before, self._unflushed, now_ms = self._unflushed, {}, monotonic_ms()
        for partition in self._partitions:
            flushed = partition.flush_policy.counted_offset
            if flushed is None or flushed >= partition.log.log_end_offset or partition.is_closed:
                continue
            known = before.get(partition)
            since_ms = known[1] if known is not None and known[0] == flushed else now_ms
            self._unflushed[partition] = flushed, since_ms
            if now_ms - since_ms > self._flush_patience_ms:
                partition.step(FlushHangs(), now_ms)

    async def _step_down(self) -> None:
        """Ask the controller to elect other leaders where this broker cannot write."""
        changes, self._resignations = [*self._resignations, *self._unopened()], []
        if not changes:
            return
        news, self._given_up = set(changes) - self._given_up, set(changes)
        for change in news:
            is_whole = LEAVING_BROKER_EPOCH in change.proposal.broker_epochs
            reason = "does not reach its followers, or the disk" if is_whole else "cannot be written here"
            logger.error(
                "the log of partition %d of topic %s %s: another in-sync replica should lead",
                change.partition_index, change.topic_id, reason,
            )  # fmt: skip
        answers = await self._ask(changes)
        if isinstance(answers, ErrorCode) and news:
            logger.error("the controller did not relieve this broker: %s", answers.name)

    def _unopened(self) -> Iterator[_Change]:
        """The partitions that this broker leads, whose logs could not be opened, and that other members could
        lead.
        """
        image = self._quorum.image
        for name in self._partitions.unopened:
            topic = image.topics_by_name.get(name)
            for placed in topic.partitions if topic is not None else ():
                is_open = self._partitions.find(name, placed.index) is not None
                if placed.leader != self._node_id or is_open or topic is None:
                    continue
                effect = step_down(self._node_id, placed.isr, placed.leader_epoch, placed.partition_epoch)
                if effect is not None:
                    yield _Change(topic.topic_id, placed.index, effect.proposal)


def _answered(
    proposal: ProposeIsr, answers: "ErrorCode | dict[tuple[UUID, int], Any]", partition: HostedPartition
) -> IsrAnswered:
    if isinstance(answers, ErrorCode):
        return IsrAnswered(proposal, answers)
    answer = answers.get((partition.topic_id, partition.index))
    if answer is None:
        return IsrAnswered(proposal, ErrorCode.REQUEST_TIMED_OUT)
    if answer.error_code:
        return IsrAnswered(proposal, ErrorCode(answer.error_code))
    return IsrAnswered(
        proposal, ErrorCode.NONE, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr)
    )


def _tell(partition: HostedPartition, answer: IsrAnswered) -> None:
    before, wanted = partition.replica.isr, answer.proposal.isr
    if answer.error is ErrorCode.NONE:
        verb = "shrank" if len(wanted) < len(before) else "grew" if len(wanted) > len(before) else "stays"
        logger.info(
            "the in-sync replicas of %s: %s %s (%s before)",
            partition.name, verb, wanted, before,
            extra=partition.log_fields,
        )  # fmt: skip
    else:
        logger.info(
            "the in-sync replicas of %s did not become %s: %s",
            partition.name, wanted, answer.error.name,
            extra=partition.log_fields,
        )  # fmt: skip
