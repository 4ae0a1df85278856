"""The broker in a simulated node: it registers, sends heartbeats, hosts what the image places on it, and answers.

Rules
- It hosts nothing before the image holds the registration of this very process: until then the image is about a former one,
  whose records may be gone.
- The mark of a clean stop is taken away when it starts, and made when everything is flushed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.fetching import Fetcher, ParkedFetches
from tests.simulation.isr_proposals import IsrProposals
from tests.simulation.metadata import has_failed
from tests.simulation.replica import HostedPartition
from tests.simulation.site import (
    CLUSTER_ID,
    AskMetadata,
    Consume,
    Consumed,
    Produce,
    Produced,
    Replicate,
    Site,
    TopicPartition,
)
from tests.simulation.wire import REFUSED, Answered

from ottla.controller.image import ClusterImage, ResourceType, TopicImage, topic_changes
from ottla.controller.replica_trust import KEPT_WRITES_FEATURE
from ottla.errors import ErrorCode
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.replication.events import FollowerLost, Tick

if TYPE_CHECKING:
    from tests.simulation.node import Node

_UNKNOWN_HERE = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Broker:
    """One life after the other of a node's broker."""

    def __init__(self, site: Site, node: Node) -> None:
        self._site = site
        self._node = node
        self.node_id = node.node_id
        self.checks = site.checks
        self.flushes = site.flushes
        self.timing = site.timing
        self._reset()

    def _reset(self) -> None:
        self.incarnation_id = UUID(int=0)
        self.epoch = -1
        self.is_admitted = False
        self.is_stopping = False
        self._previous_epoch = -1
        self._beat = 0
        self.hosted: dict[TopicPartition, HostedPartition] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._parked = ParkedFetches(self)
        self.isr = IsrProposals(self, self._node)
        self._directory: dict[TopicPartition, tuple[int, int]] | None = None

    @property
    def now_ms(self) -> int:
        return self._node.now_ms

    @property
    def image(self) -> ClusterImage:
        return self._node.metadata.image

    # ---- its life

    def started(self) -> None:
        self._reset()
        disk = self._node.disk
        self.incarnation_id = self._site.new_uuid()
        disk.directory_id = disk.directory_id or self._site.new_uuid()
        self._previous_epoch, disk.clean_epoch = disk.clean_epoch, -1
        random = self._site.cluster.random
        self._node.after(random.randint(0, self.timing.retry_ms), self._register)
        self._node.after(random.randint(1, self.timing.tick_ms), self._tick)
        self._node.after(random.randint(1, self.timing.checkpoint_ms), self._checkpoint)

    def died(self) -> None:
        self._reset()

    def shut_down(self) -> None:
        if not self.is_stopping:
            self.is_stopping = True
            self._node.after(self.timing.shutdown_ms, self._node.leave)
            self.controller_changed()

    def close(self) -> None:
        """Leave everything on disk, and the mark that it is."""
        disk = self._node.disk
        for log in disk.logs.values():
            log.close()
        self._write_watermarks()
        disk.clean_epoch = self.epoch

    def _register(self) -> None:
        disk = self._node.disk
        assert disk.directory_id is not None
        request = BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(name="PLAINTEXT", host=f"host{self.node_id}", port=9092)],
            features=[Feature(KEPT_WRITES_FEATURE, 0, int(disk.keeps_writes))],
            rack=self._node.rack,
            log_dirs=[disk.directory_id],
            previous_broker_epoch=self._previous_epoch,
        )
        self._node.metadata.submit(request, self._registered)

    def _registered(self, answer: Any) -> None:
        if has_failed(answer):
            self._node.after(self.timing.retry_ms, self._register)
        else:
            self.epoch = answer.broker_epoch
            self._node.disk.keeps_writes = True
            self._node.trace("is registered", self.epoch)
            self._heartbeat()

    def controller_changed(self) -> None:
        """There is something to say, or somebody to say it to: do not wait for the next heartbeat."""
        if self.epoch >= 0:
            self._node.after_us(0, self._heartbeat)

    def _heartbeat(self) -> None:
        self._beat += 1
        request = BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.image.last_offset,
            want_shut_down=self.is_stopping,
        )
        self._node.metadata.submit(request, partial(self._heartbeat_answered, self._beat))

    def _next_heartbeat(self, beat: int) -> None:
        if beat == self._beat:
            self._heartbeat()

    def _heartbeat_answered(self, beat: int, answer: Any) -> None:
        if beat != self._beat:
            return  # there was another one since
        if not has_failed(answer):
            if answer.should_shut_down:
                self._node.leave()
                return
        elif getattr(answer, "error_code", 0) in _NOT_REGISTERED:
            # Somebody registered in our name, as an older process of ours whose request came late.
            self._previous_epoch = -1
            self._node.after(self.timing.retry_ms, self._register)
            return
        delay_ms = self.timing.heartbeat_ms if answer is not None else self.timing.retry_ms
        self._node.after(delay_ms, partial(self._next_heartbeat, beat))

    # ---- what the image places here

    def image_changed(self, before: ClusterImage, after: ClusterImage) -> None:
        self._directory = None
        registered = after.brokers.get(self.node_id)
        was_admitted = self.is_admitted
        self.is_admitted = registered is not None and registered.incarnation_id == self.incarnation_id
        if not self.is_admitted:
            return
        if not was_admitted:
            self._remove_strays(after)
            changed = list(after.topics_by_id.values())
        else:
            removed, changed = topic_changes(before, after)
            for topic in removed:
                self._remove_topic(topic)
        for topic in changed:
            self._apply(topic, after)
        self._forget_fenced(before, after)
        for fetcher in self._fetchers.values():
            fetcher.go()

    def _apply(self, topic: TopicImage, image: ClusterImage) -> None:
        settings = image.config_of(ResourceType.TOPIC, topic.name)
        min_isr = int(settings.get("min.insync.replicas", "1"))
        for placed in topic.partitions:
            partition = TopicPartition(topic.topic_id, placed.index)
            if self.node_id not in placed.replicas:
                self._remove(partition)
                continue
            hosted = self.hosted.get(partition) or self._open(partition)
            hosted.assigned(placed, min_isr)
            leader = hosted.follower.leader
            if not hosted.replica.is_leader and leader >= 0 and leader not in self._fetchers:
                self._fetchers[leader] = Fetcher(self, self._node, leader)
            self._parked.wake(partition)

    def _open(self, partition: TopicPartition) -> HostedPartition:
        disk = self._node.disk
        log = disk.logs.get(partition)
        if log is None:
            log = disk.logs[partition] = self._site.new_log()
        end = log.log_end_offset if log.first_lost_offset is None else log.first_lost_offset
        high_watermark = min(disk.high_watermarks.get(partition, 0), end)
        hosted = HostedPartition(self, partition, log, max(high_watermark, log.log_start_offset))
        self.hosted[partition] = hosted
        return hosted

    def _remove(self, partition: TopicPartition) -> None:
        hosted = self.hosted.pop(partition, None)
        if hosted is not None:
            self._node.trace("removes", partition)
            hosted.retire()
            self.checks.removed(self.node_id, hosted)
            self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        self._node.disk.logs.pop(partition, None)
        self._node.disk.high_watermarks.pop(partition, None)

    def _remove_topic(self, topic: TopicImage) -> None:
        for placed in topic.partitions:
            self._remove(TopicPartition(topic.topic_id, placed.index))

    def _remove_strays(self, image: ClusterImage) -> None:
        """What was moved away while this broker was not there."""
        for partition in list(self._node.disk.logs):
            topic = image.topics_by_id.get(partition.topic_id)
            placed = topic.partition(partition.partition_id) if topic is not None else None
            if placed is None or self.node_id not in placed.replicas:
                self._forget(partition)

    def _forget_fenced(self, before: ClusterImage, after: ClusterImage) -> None:
        for node_id, broker in after.brokers.items():
            former = before.brokers.get(node_id)
            if broker.is_fenced and (former is None or not former.is_fenced):
                self.disconnected(node_id)

    def disconnected(self, node_id: int) -> None:
        for hosted in self.hosted.values():
            if hosted.replica.is_leader:
                hosted.step(FollowerLost(node_id))

    # ---- what it is asked

    def serve(self, request: Any, reply: Answered) -> None:
        if not self.is_admitted:
            reply(REFUSED)
            return
        match request:
            case Replicate():
                self._parked.serve(request, reply)
            case Produce():
                self._produce(request, reply)
            case Consume():
                hosted = self.hosted.get(request.partition)
                reply(Consumed(_UNKNOWN_HERE) if hosted is None else hosted.consume(request))
            case AskMetadata():
                reply(self._metadata())
            case _:  # a client's command
                self._node.metadata.submit(request, reply)

    def _produce(self, request: Produce, reply: Answered) -> None:
        hosted = self.hosted.get(request.partition)
        if hosted is None:
            reply([Produced(_UNKNOWN_HERE)] * len(request.batches))
        else:
            hosted.produce(request, reply)

    def _metadata(self) -> dict[TopicPartition, tuple[int, int]]:
        if self._directory is None:
            self._directory = {
                TopicPartition(topic.topic_id, placed.index): (placed.leader, placed.leader_epoch)
                for topic in self.image.topics_by_id.values()
                for placed in topic.partitions
            }
        return self._directory

    # ---- what its partitions tell it

    def log_moved(self, hosted: HostedPartition) -> None:
        self._parked.wake(hosted.partition)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._node.after(delay_ms, action)

    def after_flush(self, flushed: Callable[[], None]) -> None:
        delay_us = self._site.cluster.random.randint(*self._site.flush_us)
        self._node.after_us(delay_us, flushed)

    def flushed(self, hosted: HostedPartition) -> None:
        fetcher = self._fetchers.get(hosted.follower.leader)
        if fetcher is not None:
            fetcher.go()

    def trace_effect(self, partition: TopicPartition, effect: Any) -> None:
        if self._site.trace is not None:
            self._node.trace("->", f"{partition} {effect}")

    # ---- what it does now and then

    def _tick(self) -> None:
        now_ms = self.now_ms
        for hosted in list(self.hosted.values()):
            if hosted.replica.next_deadline_ms <= now_ms:
                hosted.step(Tick())
        self._node.after(self.timing.tick_ms, self._tick)

    def _checkpoint(self) -> None:
        """Flush some logs, and write down what is committed."""
        random = self._site.cluster.random
        for hosted in self.hosted.values():
            if not hosted.is_flushing and random.random() < 0.4:
                hosted.log.flush()
        self._write_watermarks()
        self._node.after(self.timing.checkpoint_ms, self._checkpoint)

    def _write_watermarks(self) -> None:
        disk = self._node.disk
        for partition, hosted in self.hosted.items():
            disk.high_watermarks[partition] = hosted.replica.high_watermark

    def trim(self, share: float) -> None:
        """Retention takes the oldest records of what this broker leads."""
        for hosted in self.hosted.values():
            if hosted.replica.is_leader:
                log = hosted.log
                limit = min(log.removable_offset, hosted.replica.high_watermark)
                log.advance_start(log.log_start_offset + int((limit - log.log_start_offset) * share))


_NOT_REGISTERED = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
