"""What must stay true of a cluster's partitions and of its metadata, looked at whenever something changes.

- one leader for each epoch of a partition, holding everything that was committed before it
- log matching: one batch for each offset and epoch, behind one epoch
- one batch for each offset below a watermark, for ever, wherever it is read; no record of a producer twice, none out of order
- watermarks and epochs only rise; a log is never cut below what was committed
- every member of the ISR holds everything that is committed (and flushed it, where that was asked for)
- what is acknowledged is committed
- the cluster's image is the same on all nodes, at each offset of the metadata log

What was committed is written down once, as it is committed, and everything is compared with it: an event costs what it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.broker_log import NO_PRODUCER, Batch, ReplicaLog
from tests.simulation.raft_checks import require
from tests.simulation.site import Outgoing, TopicPartition

from ottla.controller.image import ClusterImage, PartitionImage, topic_changes
from ottla.model import NO_LEADER

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.replica import HostedPartition


@dataclass(slots=True)
class Truth:
    """A partition as it is committed."""

    batches: list[Batch] = field(default_factory=list)
    by_base: dict[int, Batch] = field(default_factory=dict)
    end_offset: int = 0
    last_epoch: int = -1  # of the leader that committed last
    end_by_epoch: dict[int, int] = field(default_factory=dict)
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    written: dict[tuple[int, int], tuple[Batch, int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def committed_before(self, epoch: int) -> int:
        """How far leaders of older epochs have committed."""
        return max((end for older, end in self.end_by_epoch.items() if older < epoch), default=0)


class ClusterChecks:
    """Everything that was ever committed, and who holds it."""

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self.flushes = False
        self.image = ClusterImage("")
        self._images: dict[int, ClusterImage] = {}
        self.truths: dict[TopicPartition, Truth] = {}
        self.damaged: set[tuple[int, TopicPartition]] = set()
        self.counts: Counter[str] = Counter()

    def truth(self, partition: TopicPartition) -> Truth:
        truth = self.truths.get(partition)
        if truth is None:
            truth = self.truths[partition] = Truth()
        return truth

    def never(self, sentence: str) -> None:
        require(False, sentence)

    def placed(self, partition: TopicPartition) -> PartitionImage | None:
        """A partition as the newest image has it."""
        topic = self.image.topics_by_id.get(partition.topic_id)
        return topic.partition(partition.partition_id) if topic is not None else None

    # ---- metadata

    def decided(self, node_id: int, command: Any, decision: Any) -> None:
        if decision.records:
            self.counts[type(command).__name__] += 1

    def applied(self, node_id: int, image: ClusterImage) -> None:
        """A node has replayed what is committed."""
        seen = self._images.setdefault(image.last_offset, image)
        if seen is not image and seen != image:
            self.never(f"{node_id} has another image of offset {image.last_offset} than others")
        if image.last_offset > self.image.last_offset:
            before, self.image = self.image, image
            if self.damaged:
                self._registered(before, image)
            for topic in topic_changes(before, image).changed:
                former = before.topics_by_id.get(topic.topic_id)
                for placed in topic.partitions:
                    was = former.partition(placed.index) if former is not None else None
                    if was != placed:
                        self._review(TopicPartition(topic.topic_id, placed.index), was, placed)

    def _review(self, partition: TopicPartition, was: PartitionImage | None, now: PartitionImage) -> None:
        name = f"{partition} is {now}"
        require(set(now.isr) <= set(now.replicas), f"{name}: no ISR of its replicas")
        require(bool(now.isr) or now.leader == NO_LEADER, f"{name}: a leader that is not in sync")
        require(
            set(now.elr) <= set(now.replicas) - set(now.isr), f"{name}: in sync, and eligible beside that"
        )
        require(now.leader == NO_LEADER or now.leader in now.isr, f"{name}: led from outside of the ISR")
        if was is not None:
            require(now.leader_epoch >= was.leader_epoch, f"{name}: the leader epoch was {was.leader_epoch}")
            require(now.partition_epoch > was.partition_epoch, f"{name}: and was {was}")
            require(
                now.leader_epoch > was.leader_epoch or now.leader == was.leader,
                f"{name}: another leader in the epoch of {was.leader}",
            )
        for member in now.isr:
            if was is None or member not in was.isr:
                self._holds_everything(member, partition, f"{member} joins the ISR of {partition}, and")
        if now.leader != NO_LEADER and (was is None or now.leader_epoch != was.leader_epoch):
            self.counts["elections"] += 1
            require(
                (now.leader, partition) not in self.damaged,
                f"{name}: the leader is a replica that has lost records",
            )

    def _holds_everything(self, node_id: int, partition: TopicPartition, who: str) -> None:
        truth = self.truths.get(partition)
        if truth is None or (node_id, partition) in self.damaged:
            return
        log = self._nodes[node_id].disk.logs.get(partition)
        require(log is not None or truth.end_offset == 0, f"{who} has no log")
        if log is not None:
            self._holds(log, truth, log.log_start_offset, truth.end_offset, who)

    def _holds(self, log: ReplicaLog, truth: Truth, low: int, high: int, who: object) -> None:
        """A log has what is committed, from one offset to another."""
        if log.log_end_offset < high:
            self.never(f"{who} ends at {log.log_end_offset}, and {high} records are committed")
        by_base = truth.by_base
        for batch in log.batches[log.index_of(low) :]:
            if batch.base_offset >= high:
                return
            if by_base.get(batch.base_offset) is not batch:
                self.never(f"{who} has {batch} where {by_base.get(batch.base_offset)} is committed")

    # ---- leaders and logs

    def assigned(self, node_id: int, hosted: HostedPartition) -> None:
        """A replica has another leader, perhaps itself."""
        replica = hosted.replica
        if not replica.is_leader:
            return
        truth, epoch = self.truth(hosted.partition), replica.leader_epoch
        who = (node_id, self._nodes[node_id].unclean_deaths)
        seen = truth.leaders.setdefault(epoch, who)
        require(seen == who, f"both {seen} and {who} lead {hosted.partition} in epoch {epoch}")
        low, high = hosted.log.log_start_offset, truth.committed_before(epoch)
        self._holds(hosted.log, truth, low, high, f"{node_id}, which leads {hosted.partition} in {epoch},")

    def wrote(self, partition: TopicPartition, batch: Batch, previous_epoch: int) -> None:
        """A batch stands in a log, behind a batch of another epoch or the same."""
        written = self.truth(partition).written
        seen, behind = written.setdefault((batch.base_offset, batch.leader_epoch), (batch, previous_epoch))
        if seen is not batch or behind != previous_epoch:
            self.never(
                f"{partition}: {batch} behind epoch {previous_epoch} here, {seen} behind epoch {behind} elsewhere"
            )

    def replicated(self, partition: TopicPartition, log: ReplicaLog, batches: Sequence[Batch]) -> None:
        """A follower is about to append."""
        next_offset, previous_epoch = log.log_end_offset, log.latest_epoch
        for batch in batches:
            if batch.base_offset != next_offset:
                self.never(f"{partition}: {batch} where {next_offset} is next")
            # A log that begins later does not know what was before its first record.
            if log.batches or next_offset == 0:
                self.wrote(partition, batch, previous_epoch)
            next_offset, previous_epoch = batch.end_offset, batch.leader_epoch

    def truncates(self, hosted: HostedPartition, offset: int) -> None:
        """A follower is about to cut its log."""
        self.counts["cuts"] += 1
        node_id, partition = hosted.replica.node_id, hosted.partition
        require(
            offset >= hosted.replica.high_watermark,
            f"{node_id} cuts {partition} at {offset}, below its watermark {hosted.replica.high_watermark}",
        )
        placed = self.placed(partition)
        if placed is not None and node_id in placed.isr and (node_id, partition) not in self.damaged:
            end = self.truth(partition).end_offset
            require(offset >= end, f"{node_id} of the ISR cuts {partition} at {offset}, {end} is committed")

    def begins(self, hosted: HostedPartition, offset: int) -> None:
        """A follower is about to throw its log away."""
        self.counts["resets"] += 1
        log, node_id = hosted.log, hosted.replica.node_id
        placed = self.placed(hosted.partition)
        is_member = placed is not None and node_id in placed.isr
        require(
            not is_member or offset <= log.log_end_offset or (node_id, hosted.partition) in self.damaged,
            f"{node_id} of the ISR begins {hosted.partition} at {offset}, and had {log.log_end_offset} records",
        )

    def removed(self, node_id: int, hosted: HostedPartition) -> None:
        """A replica was moved away."""
        self.counts["removals"] += 1

    # ---- watermarks

    def advanced(self, node_id: int, hosted: HostedPartition, low: int, high: int) -> None:
        """A replica has raised its watermark."""
        truth, log, partition = self.truth(hosted.partition), hosted.log, hosted.partition
        if not low < high <= log.log_end_offset:
            self.never(f"{node_id}: from {low} to {high} goes the watermark of {log.log_end_offset} records")
        if high > truth.end_offset:
            self._commit(node_id, hosted, truth, high)
        self._holds(log, truth, max(low, log.log_start_offset), high, node_id)
        replica = hosted.replica
        if replica.is_leader and replica.high_watermark_is_known:
            earlier = truth.committed_before(replica.leader_epoch)
            if high < earlier:
                self.never(f"{node_id} knows {high} of {partition}; {earlier} was committed before")

    def _commit(self, node_id: int, hosted: HostedPartition, truth: Truth, high: int) -> None:
        replica, log, partition = hosted.replica, hosted.log, hosted.partition
        epoch = replica.leader_epoch
        if not replica.is_leader or epoch < truth.last_epoch:
            self.never(
                f"{node_id} has {high} of {partition} in {epoch}, before any leader since {truth.last_epoch}"
            )
        for batch in log.batches[log.index_of(truth.end_offset) :]:
            if batch.end_offset > high:
                break
            if batch.base_offset != truth.end_offset:
                self.never(f"{partition}: {batch} behind {truth.end_offset}")
            truth.batches.append(batch)
            truth.by_base[batch.base_offset] = batch
            truth.end_offset = batch.end_offset
            self._in_order(partition, truth, batch)
        if truth.end_offset != high:
            self.never(f"the watermark {high} of {partition} is inside of a batch")
        truth.last_epoch = epoch
        truth.end_by_epoch[epoch] = high
        self._is_everywhere(partition, truth, node_id)

    def _in_order(self, partition: TopicPartition, truth: Truth, batch: Batch) -> None:
        if batch.producer_id == NO_PRODUCER:
            return
        expected = truth.sequences.get(batch.producer_id, 0)
        if batch.base_sequence != expected:
            self.never(f"{partition}: {batch} is committed, {expected} is next of {batch.producer_id}")
        truth.sequences[batch.producer_id] = expected + len(batch.values)

    def _is_everywhere(self, partition: TopicPartition, truth: Truth, leader: int) -> None:
        """Every member of the newest ISR holds what was just committed."""
        placed, last = self.placed(partition), truth.batches[-1]
        for member in placed.isr if placed is not None else ():
            if (member, partition) in self.damaged:
                continue
            log = self._nodes[member].disk.logs.get(partition)
            end = 0 if log is None else log.flushed_offset if self.flushes else log.log_end_offset
            if log is None or end < truth.end_offset:
                self.never(
                    f"{leader} commits {last} of {partition}, and {member} of the ISR has {end} records"
                )
            elif last.base_offset >= log.log_start_offset:
                held = log.batches[log.index_of(last.base_offset)]
                if held is not last:
                    self.never(f"{leader} commits {last} of {partition}; {member} has {held}")

    # ---- clients

    def acknowledged(self, partition: TopicPartition, sent: Outgoing, base_offset: int) -> None:
        """A producer hears that its batch is written, with acks=all."""
        self.counts["acknowledged"] += 1
        batch = self.truth(partition).by_base.get(base_offset)
        if batch is None or batch.values != sent.values:
            self.never(f"{sent} is acknowledged at {base_offset} of {partition}, where {batch} is committed")

    def read(self, partition: TopicPartition, position: int, batches: Sequence[Batch]) -> None:
        """A consumer reads on where it was."""
        self.counts["reads"] += bool(batches)
        by_base = self.truth(partition).by_base
        for batch in batches:
            if batch.base_offset != position or by_base.get(position) is not batch:
                committed = by_base.get(position)
                self.never(f"{batch} of {partition} is read at {position}, where {committed} is committed")
            position = batch.end_offset

    # ---- disks

    def lost_records(self, node_id: int, partition: TopicPartition) -> None:
        """A machine has lost records that it may have spoken of. Its broker says so when it registers again."""
        self.damaged.add((node_id, partition))

    def _registered(self, before: ClusterImage, after: ClusterImage) -> None:
        """A broker that comes back after a loss is in no ISR."""
        for node_id, partition in sorted(self.damaged):
            broker, former = after.brokers.get(node_id), before.brokers.get(node_id)
            if broker is None or (former is not None and former.epoch == broker.epoch):
                continue
            placed = self.placed(partition)
            require(
                placed is None or node_id not in placed.isr,
                f"{node_id} is back after a loss, and still in the ISR of {partition}: {placed}",
            )
            self.damaged.discard((node_id, partition))

    def is_whole(self) -> bool:
        """Whether no member of an ISR has lost anything."""
        return not self.damaged

    def holds_all(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether a replica has as much as is committed."""
        log = self._nodes[node_id].disk.logs.get(partition)
        return log is not None and log.log_end_offset == self.truth(partition).end_offset

    def compare_everything(self) -> None:
        """Whatever anybody holds below what is committed is that."""
        for partition, truth in self.truths.items():
            for node_id, node in self._nodes.items():
                log = node.disk.logs.get(partition)
                if log is not None:
                    self._holds(log, truth, log.log_start_offset, truth.end_offset, node_id)
