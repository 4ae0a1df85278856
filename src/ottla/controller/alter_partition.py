"""AlterPartition, versions 2 to 3: a leader proposes the in-sync replicas (KIP-497, KIP-841, KIP-903).

A proposal is a compare-and-set: it holds for one leader epoch and one partition epoch, and whatever changed
the partition meanwhile refuses it. Every member has to be a replica and eligible, and registered under the
epoch that the leader knew when it saw the member catch up: one that restarted since may have lost records.
The replica of a member must be readable (`lost_replicas`). A proposal that is accepted raises the partition
epoch even if it changes nothing: a leader that never heard the answer to an earlier one then knows that it
cannot be carried out any more. Where a change brings another leader the answer is NEW_LEADER_ELECTED: the
change was made. Answers about a partition that exists say how it stands, refusals too.

A leader may step down, which Kafka does not know. A proposal without the leader says that its log is broken.
A leader that names itself with LEAVING_BROKER_EPOCH is whole and does not reach the others: it is eligible to
lead again if they turn out to be dead.
"""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage, PartitionImage
from ottla.controller.partition_changes import PartitionChanges, elected
from ottla.errors import ErrorCode
from ottla.model import LEAVING_BROKER_EPOCH, NO_BROKER_EPOCH, NO_LEADER
from ottla.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    AlterPartitionTopicData,
    BrokerState,
)

_RECOVERED = 0


def alter_partition(
    image: ClusterImage, request: AlterPartitionRequest, settings: BrokerSettings
) -> Decision:
    """Decide on each proposal by itself."""
    error = image.broker_epoch_error(request.broker_id, request.broker_epoch)
    if error:
        return Decision([], AlterPartitionResponse(error_code=error))
    alteration = _Alteration(image, request.broker_id, settings)
    topics = [
        AlterPartitionResponseTopicData(topic.topic_id, list(alteration.answers(topic)))
        for topic in request.topics
    ]
    return alteration.changes.decision([], AlterPartitionResponse(topics=topics))


class _Alteration:
    """The proposals of one request."""

    def __init__(self, image: ClusterImage, leader: int, settings: BrokerSettings) -> None:
        self.changes = PartitionChanges(image, image.eligible_brokers, settings)
        self._image = image
        self._leader = leader
        self._decided: set[tuple[UUID, int]] = set()

    def answers(self, proposed: AlterPartitionTopicData) -> Iterator[AlterPartitionResponsePartitionData]:
        """Decide on the partitions of one topic."""
        topic = self._image.topics_by_id.get(proposed.topic_id)
        for proposal in proposed.partitions:
            index = proposal.partition_index
            partition = topic.partition(index) if topic is not None else None
            if topic is None or partition is None:
                missing = (
                    ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                yield AlterPartitionResponsePartitionData(index, missing, NO_LEADER)
                continue
            error = self._error(partition, proposal)
            if (topic.topic_id, index) in self._decided:
                error = ErrorCode.INVALID_REQUEST
            if not error:
                self._decided.add((topic.topic_id, index))
                isr = tuple(member.broker_id for member in _members(proposal))
                # The members are eligible all of them, so this only finds a new leader where the old one
                # steps down, or has stayed only because no other could lead.
                after = elected(replace(partition, isr=isr), self.changes.eligible)
                # The log of a leader that steps down is broken: it may not hold what it acknowledged.
                is_whole = LEAVING_BROKER_EPOCH in (member.broker_epoch for member in _named(proposal))
                broken = frozenset() if is_whole else {self._leader} - {*isr}
                partition = self.changes.put(topic, partition, after, renews_epoch=True, distrusted=broken)
                error = ErrorCode.NONE if partition.leader == self._leader else ErrorCode.NEW_LEADER_ELECTED
            yield _answer(partition, error)

    def _error(self, partition: PartitionImage, proposal: AlterPartitionPartitionData) -> ErrorCode:
        if (
            proposal.leader_epoch > partition.leader_epoch
            or proposal.partition_epoch > partition.partition_epoch
        ):
            return ErrorCode.NOT_CONTROLLER  # the leader heard of a later decision than this controller
        if proposal.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if partition.leader != self._leader:
            return ErrorCode.INVALID_REQUEST
        if proposal.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if proposal.leader_recovery_state != _RECOVERED:
            return ErrorCode.INVALID_REQUEST
        return self._members_error(partition, _members(proposal))

    def _members_error(self, partition: PartitionImage, members: list[BrokerState]) -> ErrorCode:
        ids = {member.broker_id for member in members}
        steps_down = self._leader not in ids
        allowed = partition.isr if steps_down else partition.replicas
        if not ids or len(ids) != len(members) or not ids <= set(allowed):
            return ErrorCode.INVALID_REQUEST
        can_lead = not ids.isdisjoint(self.changes.eligible)
        if not can_lead or not all(self._is_eligible(partition, member) for member in members):
            return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def _is_eligible(self, partition: PartitionImage, member: BrokerState) -> bool:
        if member.broker_id not in self.changes.eligible:
            # A leader that stops, or whose disk takes no writes, stays until another member can lead.
            return member.broker_id == self._leader
        if partition.is_damaged_on(member.broker_id):
            return False
        if member.broker_epoch == NO_BROKER_EPOCH:
            return member.broker_id in partition.isr
        return member.broker_epoch == self._image.brokers[member.broker_id].epoch


def _members(proposal: AlterPartitionPartitionData) -> list[BrokerState]:
    """The proposed members, without a leader that leaves."""
    return [member for member in _named(proposal) if member.broker_epoch != LEAVING_BROKER_EPOCH]


def _named(proposal: AlterPartitionPartitionData) -> list[BrokerState]:
    """The brokers in a proposal, in either form; version 2 does not know their epochs."""
    return proposal.new_isr_with_epochs or [BrokerState(node_id) for node_id in proposal.new_isr]


def _answer(partition: PartitionImage, error: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=partition.index,
        error_code=error,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
    )
