"""The quorum as a simulated node has it: a controller that replays what is committed, and decides while its member leads.

As the broker's shell does it: one decision at a time, appended as one write; when it is committed it is replayed, the broker
hears of the new image, and then whoever asked gets the answer. A leadership that ends leaves its askers without one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.site import (
    CLUSTER_ID,
    RECORD_BITS,
    Forwarded,
    Probe,
    Site,
)
from tests.simulation.wire import REFUSED, Answered

from ottla.controller.commands import BalanceLeaders, FenceBrokers
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.controller.liveness import BrokerLiveness
from ottla.controller.records import decode_record, encode_record
from ottla.controller.snapshot import snapshot_records
from ottla.errors import ErrorCode
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest
from ottla.raft.messages import SnapshotId

if TYPE_CHECKING:
    from tests.simulation.node import Node

_FROM_BROKERS = (BrokerHeartbeatRequest, BrokerRegistrationRequest)


class UnderWay(NamedTuple):
    """A decision that is appended and not yet committed."""

    last_value: int
    response: Any
    answered: Answered


class Metadata:
    """One node's controller, in charge or not."""

    def __init__(self, site: Site, node: Node) -> None:
        self._site = site
        self._node = node
        self._reset()

    def _reset(self) -> None:
        timing = self._site.timing
        self._controller = self._new_controller()
        self._commands: deque[tuple[Any, Answered]] = deque()
        self._under_way: UnderWay | None = None
        self._active_epoch = -1
        self._is_fencing = False
        self.liveness = BrokerLiveness(timing.session_ms, timing.disconnect_grace_ms)

    def _new_controller(self) -> Controller:
        site = self._site
        return Controller(self._node.node_id, CLUSTER_ID, site.config, site.new_uuid)

    @property
    def image(self) -> ClusterImage:
        return self._controller.image

    @property
    def is_active(self) -> bool:
        """Whether it may decide: its member leads, and everything that was ever committed is replayed."""
        replica = self._node.member.running
        return replica is not None and replica.is_established

    # ---- its life

    def started(self) -> None:
        self._reset()
        log = self._node.member.disk.log
        if log.log_start_offset > 0:
            self._load(SnapshotId(log.log_start_offset, log.log_start_epoch))

    def died(self) -> None:
        self._reset()

    def loaded(self, snapshot_id: SnapshotId) -> None:
        before = self.image
        self._site.checks.counts["loaded snapshots"] += 1
        self._load(snapshot_id)
        self._image_changed(before)

    def _load(self, snapshot_id: SnapshotId) -> None:
        self._controller = self._new_controller()
        records = self._site.snapshots[snapshot_id]
        self._controller.load_snapshot(records, snapshot_id.end_offset - 1, snapshot_id.epoch)

    def snapshot_taken(self, snapshot_id: SnapshotId) -> None:
        self._site.snapshots[snapshot_id] = list(snapshot_records(self.image))

    # ---- commands

    def submit(self, command: Any, answered: Answered) -> None:
        """Have a command decided, here or where the active controller is; None if nobody knows."""
        replica = self._node.member.replica
        leader_id = replica.leader_id if replica is not None else None
        if leader_id == self._node.node_id:
            self.decide(command, answered)
        elif leader_id is None or leader_id not in self._site.nodes:
            answered(None)
        else:
            self._node.ask(leader_id, Forwarded(command), answered, self._site.timing.request_timeout_ms)

    def decide(self, command: Any, answered: Answered) -> None:
        """What a command comes to, if this node is the active controller."""
        if not self.is_active or self._active_epoch < 0:
            answered(None)
            return
        self._commands.append((command, answered))
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        self._node.after_us(0, self._go_on)

    def _go_on(self) -> None:
        while self._commands and self._under_way is None and self.is_active:
            command, answered = self._commands.popleft()
            decision = self._controller.command(command, self._node.now_ms)
            self._site.checks.decided(self._node.node_id, command, decision)
            if isinstance(command, _FROM_BROKERS) and not decision.response.error_code:
                self.liveness.heard(command.broker_id, self._node.now_ms)
            if decision.records:
                self._append(command, decision.records, decision.response, answered)
            else:
                answered(decision.response)

    def _append(self, command: Any, records: list[Any], response: Any, answered: Answered) -> None:
        if self._site.trace is not None:
            self._node.trace("decides", f"{type(command).__name__} {records}")
        site = self._site
        if site.is_coded:
            records = [decode_record(encode_record(record)) for record in records]
        site.decisions.append(records)
        first = len(site.decisions) << RECORD_BITS
        values = list(range(first, first + len(records)))
        self._under_way = UnderWay(values[-1], response, answered)
        self._node.member.propose(values)

    # ---- what is committed

    def committed(self, low: int, high: int) -> None:
        before, log = self.image, self._node.member.disk.log
        done: UnderWay | None = None
        for offset in range(low, high):
            entry = log.entry(offset)
            self._controller.replay(self._record(entry.value), offset, entry.epoch)
            if self._under_way is not None and entry.value == self._under_way.last_value:
                done, self._under_way = self._under_way, None
        self._image_changed(before)
        if done is not None:
            done.answered(done.response)
            self._go_on_soon()

    def _record(self, value: int) -> Any:
        """What a value of the log stands for; the record of a new leader says nothing about the cluster."""
        if value < 0:
            return None
        return self._site.decisions[(value >> RECORD_BITS) - 1][value & ((1 << RECORD_BITS) - 1)]

    def _image_changed(self, before: ClusterImage) -> None:
        after = self.image
        self._site.checks.applied(self._node.node_id, after)
        self._node.broker.image_changed(before, after)

    # ---- being in charge

    def leader_changed(self) -> None:
        self._node.broker.controller_changed()
        replica = self._node.member.replica
        if replica is None or not replica.is_leader:
            self._give_up()
        elif self.is_active and replica.epoch != self._active_epoch:
            self._active_epoch = replica.epoch
            self._node.after_us(0, self._take_charge)

    def _give_up(self) -> None:
        self._active_epoch = -1
        self._is_fencing = False
        self.liveness.deactivate()
        failed = [answered for _, answered in self._commands]
        if self._under_way is not None:
            failed.append(self._under_way.answered)
        self._commands.clear()
        self._under_way = None
        for answered in failed:
            answered(None)

    def _take_charge(self) -> None:
        if not self.is_active:
            return
        self._node.trace("is in charge", self._active_epoch)
        self._site.checks.counts["controllers"] += 1
        self.liveness.activate(self.image, self._node.now_ms)
        for broker_id in self.liveness.unheard(self.image):
            if broker_id != self._node.node_id:
                self._node.ask(
                    broker_id, Probe(), self._probed(broker_id), self._site.timing.request_timeout_ms
                )
        self._watch(self._active_epoch)
        if self._site.balances:
            self._balance(self._active_epoch)

    def _probed(self, broker_id: int) -> Callable[[Any], None]:
        def probed(answer: Any) -> None:
            if answer is REFUSED:
                self.disconnected(broker_id)

        return probed

    def disconnected(self, broker_id: int) -> None:
        if self.is_active:
            self.liveness.disconnected(broker_id, self._node.now_ms)

    def _watch(self, epoch: int) -> None:
        """Fence whom nothing was heard of."""
        if epoch != self._active_epoch:
            return
        expired = self.liveness.expired(self.image, self._node.now_ms)
        if expired and not self._is_fencing:
            self._is_fencing = True
            self.decide(FenceBrokers(tuple(expired)), self._fenced)
        self._node.after(self._site.timing.watch_ms, lambda: self._watch(epoch))

    def _fenced(self, answer: Any) -> None:
        self._is_fencing = False

    def _balance(self, epoch: int) -> None:
        if epoch == self._active_epoch:
            self.decide(BalanceLeaders(0), lambda answer: None)
            self._node.after(self._site.timing.balance_ms, lambda: self._balance(epoch))


def has_failed(answer: Any) -> bool:
    """Whether nobody decided, or a refusal came."""
    return answer is None or answer is REFUSED or getattr(answer, "error_code", 0) != ErrorCode.NONE
