"""A node of a simulated cluster: a process with a member of the quorum and a broker in it, and disks that outlive it.

The process dies, stands still and comes back as a whole. Whatever happens to it comes through `hear`, so that a dead process
hears nothing, and one that stands still hears everything late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from tests.simulation.broker import Broker
from tests.simulation.broker_log import ReplicaLog
from tests.simulation.cluster import US_PER_MS, Clock
from tests.simulation.metadata import Metadata
from tests.simulation.raft_disk import RaftDisk
from tests.simulation.raft_node import RaftMember
from tests.simulation.site import Forwarded, Probe, Site, TopicPartition
from tests.simulation.wire import REFUSED, Answered, Question

from ottla.raft.events import Disconnected, Leave
from ottla.raft.messages import SnapshotId


class BrokerDisk:
    """What a broker keeps: its logs, and what it writes down about them now and then."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, ReplicaLog] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.clean_epoch = -1  # the broker epoch that stopped cleanly
        self.directory_id: UUID | None = None
        self.keeps_writes = False  # whether the machine has had power since the last registration


class Node:
    """The process and its machine."""

    def __init__(self, site: Site, node_id: int, clock: Clock, raft_disk: RaftDisk, rack: str | None) -> None:
        self.site = site
        self.node_id = node_id
        self.clock = clock
        self.rack = rack
        self.disk = BrokerDisk()
        self.unclean_deaths = 0
        self._is_leaving = False
        self.member = RaftMember(site.raft, node_id, clock, raft_disk)
        self.member.tenant = self
        site.raft.members[node_id] = self.member
        site.wire.ends[node_id] = self
        self.metadata = Metadata(site, self)
        self.broker = Broker(site, self)
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    # ---- its life

    @property
    def life(self) -> int:
        return self.member.life

    @property
    def is_up(self) -> bool:
        return self.member.replica is not None

    @property
    def is_paused(self) -> bool:
        return self.member.waiting is not None

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    def start(self) -> None:
        if not self.is_up:
            self.trace("starts", "")
            self.member.start()

    def stop(self, *, is_power_loss: bool) -> None:
        self.member.stop(is_power_loss=is_power_loss)

    def shut_down(self) -> None:
        """As SIGTERM does: first the leaderships go, then the process."""
        if self.is_up:
            self.trace("is to stop", "")
            self.broker.shut_down()

    def leave(self) -> None:
        """The end of a planned stop."""
        self.trace("stops", "")
        if self.member.running is not None and self.member.running.is_leader:
            self.member.hear(Leave())
        if self.is_up:
            self.broker.close()
            self._is_leaving = True
            self.member.stop(is_power_loss=False)

    def lose_disk(self, new_disk: RaftDisk) -> None:
        self.site.checks.counts["lost disks"] += 1
        for partition in self.disk.logs:
            self.site.checks.lost_records(self.node_id, partition)
        self.member.lose_disk(new_disk)
        self.disk = BrokerDisk()

    def pause(self) -> None:
        self.trace("stands still", "")
        self.member.pause()

    def resume(self) -> None:
        if not self.is_paused:
            return
        self.trace("goes on", "")
        self.member.resume()
        waiting, self._waiting = self._waiting, []
        for life, action in waiting:
            self.hear(life, action)

    # ---- what happens to it

    def hear(self, life: int, action: Callable[[], None]) -> None:
        member = self.member
        if life != member.life:
            return
        if member.waiting is not None:
            self._waiting.append((life, action))
        else:
            action()

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later, in this life."""
        self.site.cluster.schedule.after(delay_ms * US_PER_MS, partial(self.hear, self.life, action))

    def after_us(self, delay_us: int, action: Callable[[], None]) -> None:
        self.site.cluster.schedule.after(delay_us, partial(self.hear, self.life, action))

    def ask(self, to: int, request: Any, answered: Answered, timeout_ms: int) -> None:
        is_once = isinstance(request, Forwarded)
        self.site.wire.ask(self, to, request, answered, timeout_ms, is_once=is_once)

    def receive(self, question: Question) -> None:
        """A question arrives. Where no process listens, the kernel says so, if there is power."""
        if self.is_up:
            self.hear(self.life, partial(self._serve, question))
        elif self.member.has_power:
            self.site.wire.reply(self, question, REFUSED)

    def _serve(self, question: Question) -> None:
        reply = partial(self.site.wire.reply, self, question)
        match question.request:
            case Forwarded(command):
                self.metadata.decide(command, reply)
            case Probe():
                reply(True)
            case request:
                self.broker.serve(request, reply)

    def disconnected(self, node_id: int) -> None:
        """The connections to another process have died."""
        self.member.hear(Disconnected(node_id))
        if self.is_up:
            self.hear(self.life, partial(self._lost, node_id))

    def _lost(self, node_id: int) -> None:
        self.metadata.disconnected(node_id)
        self.broker.disconnected(node_id)

    # ---- what its member of the quorum says

    def started(self) -> None:
        self.metadata.started()
        self.broker.started()

    def died(self, *, is_power_loss: bool) -> None:
        self.trace("dies", "power loss" if is_power_loss else "")
        self._waiting = []
        kind = "clean stops" if self._is_leaving else "power losses" if is_power_loss else "kills"
        self.site.checks.counts[kind] += 1
        self.unclean_deaths += not self._is_leaving
        if is_power_loss:
            self.disk.keeps_writes = False
            self._lose_power()
        elif not self._is_leaving:
            for log in self.disk.logs.values():
                log.kill()
        self._is_leaving = False
        self.metadata.died()
        self.broker.died()
        self.site.on_death(self, is_power_loss)

    def _lose_power(self) -> None:
        for partition, log in self.disk.logs.items():
            end = log.log_end_offset
            log.crash(self.site.cluster.random)
            is_whole = log.log_end_offset == end and log.first_lost_offset is None
            if not is_whole and not self.site.flushes:
                self.site.checks.lost_records(self.node_id, partition)

    def committed(self, low: int, high: int) -> None:
        self.metadata.committed(low, high)

    def loaded(self, snapshot_id: SnapshotId) -> None:
        self.metadata.loaded(snapshot_id)

    def snapshot_taken(self, snapshot_id: SnapshotId) -> None:
        self.metadata.snapshot_taken(snapshot_id)

    def leader_changed(self) -> None:
        self.metadata.leader_changed()

    def trace(self, what: str, detail: Any) -> None:
        if self.site.trace is not None:
            self.site.trace(self.node_id, what, detail)
