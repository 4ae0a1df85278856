"""What a broker's partitions propose to the controller, gathered into one AlterPartition at a time.

Each proposal is answered once. Where no answer comes, nobody knows what became of it, and the machine is told so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.wire import REFUSED

from ottla.errors import ErrorCode
from ottla.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopicData,
    BrokerState,
)
from ottla.replication.isr import IsrAnswered, ProposeIsr

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.node import Node
    from tests.simulation.replica import HostedPartition

Proposals = list[tuple["HostedPartition", ProposeIsr]]


class IsrProposals:
    """Proposals on their way, and those that wait for them."""

    def __init__(self, broker: Broker, node: Node) -> None:
        self._broker = broker
        self._node = node
        self._waiting: Proposals = []
        self._is_asking = False

    def propose(self, hosted: HostedPartition, proposal: ProposeIsr) -> None:
        self._waiting.append((hosted, proposal))
        self._node.after_us(0, self._go)

    def _go(self) -> None:
        if self._is_asking or not self._waiting:
            return
        proposals, self._waiting = self._waiting, []
        self._is_asking = True
        topics = [self._topic(hosted, proposal) for hosted, proposal in proposals]
        request = AlterPartitionRequest(self._broker.node_id, self._broker.epoch, topics)
        self._node.metadata.submit(request, lambda answer: self._answered(proposals, answer))

    def _topic(self, hosted: HostedPartition, proposal: ProposeIsr) -> AlterPartitionTopicData:
        members = [
            BrokerState(member, self._broker.epoch if member == self._broker.node_id else epoch)
            for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ]
        data = AlterPartitionPartitionData(
            partition_index=hosted.partition.partition_id,
            leader_epoch=proposal.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=proposal.partition_epoch,
        )
        return AlterPartitionTopicData(hosted.partition.topic_id, [data])

    def _answered(self, proposals: Proposals, answer: Any) -> None:
        self._is_asking = False
        results = self._results(answer)
        if answer is None or answer is REFUSED:
            error = ErrorCode.REQUEST_TIMED_OUT
        else:
            error = ErrorCode(answer.error_code) or ErrorCode.REQUEST_TIMED_OUT
        for hosted, proposal in proposals:
            result = results.get((hosted.partition.topic_id, hosted.partition.partition_id))
            hosted.step(
                IsrAnswered(proposal, error)
                if result is None
                else IsrAnswered(
                    proposal,
                    ErrorCode(result.error_code),
                    result.leader_epoch,
                    result.partition_epoch,
                    tuple(result.isr),
                )
            )
        self._go()

    @staticmethod
    def _results(answer: Any) -> dict[Any, Any]:
        topics = getattr(answer, "topics", ())
        return {(t.topic_id, p.partition_index): p for t in topics for p in t.partitions}
