"""The composition root: has a broker built from its settings (`assembly`), starts it, stops it.

A node first takes part in the metadata quorum, which needs nothing but its metadata log and a door for other
nodes. A broker then registers, opens the logs that the image places on it, and is let in; clients wait at the
door until then.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.config import BrokerConfig
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.image import ClusterImage
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.model import NO_BROKER_EPOCH
from ottla.runtime.runtime import Runtime
from ottla.runtime.threads import run_together
from ottla.server.apis.table import registered
from ottla.server.assembly import Foundation, Parts, build_parts
from ottla.server.gate.handlers import Registered
from ottla.server.gate.services import Services
from ottla.server.net.descriptor_limit import open_files_within, raise_descriptor_limit
from ottla.server.net.listeners import Listeners
from ottla.server.partitions.directory_watch import DirectoryWatch
from ottla.server.partitions.file_removal import Remover
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.broker_membership import Identity, Membership
from ottla.server.quorum.opening import open_directory
from ottla.server.quorum.quorum import Quorum

if TYPE_CHECKING:
    from ottla.server.monitoring.monitor import Monitor
    from ottla.server.monitoring.otlp_push import OtlpPush

logger = logging.getLogger(__name__)

# How long a stopping broker lets others take over what it leads, and then its answers leave; the rest of its
# second belongs to the disk.
_HANDOVER_S: Final = 0.5
_DRAIN_S: Final = 0.3

# The file system commits its journal once for all syncs that wait: more threads than a disk has queues still help.
_SYNC_THREADS: Final = 16


class Broker:
    """A running node. `start` once, `stop` once. `halted` is done, with the reason, if it cannot go on.

    Tests may give a runtime with parts of their own (a disk, a network), or handlers of their own.
    """

    def __init__(
        self, config: BrokerConfig, runtime: Runtime | None = None, handlers: Registered = registered
    ) -> None:
        self.config = config
        self._runtime = runtime = runtime or Runtime()
        files = open_files_within(config.logs.open_files_max, raise_descriptor_limit())
        self._directory = LogDirectory(runtime.disk, config.logs.directory, OpenFiles(files, files))
        self._foundation = Foundation(
            config=config,
            runtime=runtime,
            handlers=handlers,
            directory=self._directory,
            incarnation_id=runtime.random.uuid4(),
            flusher=Flusher(runtime.threads),
            remover=Remover(runtime.threads),
        )
        self._are_logs_open = False
        self.halted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._parts: Parts | None = None
        self._membership: Membership | None = None
        self._directory_watch: DirectoryWatch | None = None
        self._monitor: Monitor | None = None
        self._otlp: OtlpPush | None = None

    @property
    def http_port(self) -> int | None:
        """The port of its metrics and health pages; None if it serves none."""
        return None if self._monitor is None else self._monitor.port

    @property
    def port(self) -> int:
        """The port of its first listener; the kernel's choice where the settings say 0."""
        return self.listeners.port

    @property
    def listeners(self) -> Listeners:
        """Its doors, once it has started."""
        return self._built.listeners

    @property
    def cluster_id(self) -> str:
        """The cluster this node belongs to."""
        return self._directory.cluster_id

    @property
    def partitions(self) -> Partitions:
        """The hosted partitions, once the broker has started."""
        return self._built.partitions

    @property
    def quorum(self) -> Quorum:
        """Its part in the metadata quorum, once it has started."""
        return self._built.quorum

    @property
    def services(self) -> Services:
        """What its handlers work with, once it has started."""
        return self._built.services

    @property
    def _built(self) -> Parts:
        assert self._parts is not None
        return self._parts

    async def start(self) -> None:
        """Open the data directory, find the quorum, recover what needs it, let clients in.

        Raises OSError and KafkaError with what to do. Without a quorum it waits.
        """
        try:
            open_directory(self.config, self._directory, self._runtime.random.uuid4)
            parts = self._parts = build_parts(self._foundation, self._on_image, self._halt)
            parts.listeners.bind()
            self._start_monitor(parts)
            parts.listeners.start_accepting()
            parts.quorum.start()
            if self.config.node.is_broker:
                await self._join(parts)
            else:
                await parts.quorum.has_controller()
            # Clients that connected meanwhile wait at the gate: before the broker is unfenced, metadata does
            # not name it.
            parts.listeners.open_gate()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Hand over, answer what is under way, flush, mark the stop as clean."""
        parts, membership = self._parts, self._membership
        if parts is not None:
            if membership is not None and self._has_successors(parts.quorum):
                await membership.leave(_HANDOVER_S)
            await parts.quorum.leave()
            parts.listeners.stop_accepting()
        await self._stop_work(parts, membership)
        await asyncio.get_running_loop().run_in_executor(None, self._close_logs)

    async def abort(self) -> None:
        """End as a process that is killed: no handover, nothing marked as clean. For tests."""
        parts, membership = self._parts, self._membership
        if parts is not None:
            parts.listeners.stop_accepting()
            await parts.listeners.drain(0)
            await parts.quorum.peers.close()
        await self._stop_work(parts, membership)
        self._directory.close(clean=False)

    async def _stop_work(self, parts: Parts | None, membership: Membership | None) -> None:
        """End all tasks and threads; the logs stay open."""
        if self._monitor is not None:
            await self._monitor.stop()
        if self._otlp is not None:
            await self._otlp.stop()
        if self._directory_watch is not None:
            await self._directory_watch.stop()
        if membership is not None:
            await membership.stop()
        if parts is not None:
            await self._stop_parts(parts)
        await self._foundation.flusher.stop()
        self._foundation.remover.stop()

    async def _stop_parts(self, parts: Parts) -> None:
        await parts.services.load.stop()
        await parts.housekeeping.stop()
        if parts.services.tiers is not None:
            await parts.services.tiers.stop()
        if parts.compaction is not None:
            await parts.compaction.stop()
        if parts.memory is not None:
            await parts.memory.stop()
        await parts.scrubber.stop()
        await parts.damaged.stop()
        await parts.isr.stop()
        await parts.fetchers.stop()
        for partition in parts.partitions:
            partition.waiters.wake()
        await parts.services.schemas.stop()
        await parts.services.transactions.stop()
        await parts.services.coordinators.stop()
        await parts.listeners.drain(_DRAIN_S)
        await parts.services.duties.stop()
        await parts.quorum.stop()
        await parts.quorum.peers.close()
        if parts.services.rights is not None:
            parts.services.rights.close()

    def _has_successors(self, quorum: Quorum) -> bool:
        """Whether others can be told to take over; a node that halted reaches no controller."""
        is_able = self.config.membership.controlled_shutdown_enable and not self.halted.done()
        return is_able and len(quorum.image.live_brokers) > 1

    def _start_monitor(self, parts: Parts) -> None:
        address, otlp_endpoint = self.config.monitoring.http_address, self.config.monitoring.otlp_endpoint
        if address is None and not otlp_endpoint:
            return
        # Imported here: most brokers serve no HTTP.
        from ottla.server.monitoring.subject import Subject

        seen = parts.services, parts.listeners, parts.isr, parts.compaction
        subject = Subject(self.config, self._runtime, *seen, self.halted)
        if address is not None:
            from ottla.server.monitoring.monitor import Monitor

            self._monitor = Monitor(subject, address)
            self._monitor.start()
        if otlp_endpoint:
            from ottla.server.monitoring.otlp_push import OtlpPush

            self._otlp = OtlpPush(subject)
            self._otlp.start()

    async def _join(self, parts: Parts) -> None:
        """Register, open the logs, have changes carried out from now on, be let in."""
        quorum, identity = parts.quorum, self._identity(parts.listeners)
        membership = self._membership = Membership(self.config, quorum, identity)
        await membership.register()
        watch = self._directory_watch = DirectoryWatch(self._directory, membership.directory_is)
        if not quorum.member.is_alone:
            watch.start()
        image = quorum.image
        self._compare_settings(image)
        await asyncio.get_running_loop().run_in_executor(None, self._open_logs, parts, image)
        self._are_logs_open = True
        keeps_writes = identity.keeps_writes or self._directory.was_closed_cleanly
        lost = parts.hosting.lost_replicas(keeps_writes=keeps_writes)
        for partition in lost:
            logger.error(
                "%s lacks records that it held: it does not lead before it has fetched", partition.name
            )
        await membership.report_lost((partition.topic_id, partition.index) for partition in lost)
        parts.services.load.start()
        parts.isr.start()
        parts.fetchers.start()
        parts.services.coordinators.start()
        parts.services.transactions.start(parts.services.markers.write)
        parts.housekeeping.start(after_crash=not self._directory.was_closed_cleanly)
        if parts.compaction is not None:
            parts.compaction.start()
        if parts.memory is not None:
            parts.memory.start()
        else:
            parts.scrubber.start()
        parts.damaged.start()
        if parts.services.tiers is not None:
            parts.services.tiers.start()
        # The logs are open; the first image assigns leaders and followers.
        quorum.deliver(ClusterImage(self.cluster_id))
        await quorum.in_force(image.last_offset)
        await membership.join()

    def _compare_settings(self, image: ClusterImage) -> None:
        own, in_force = self.config, BrokerSettings(image, self.config.node.id, self.config).in_force
        wanted, count = own.topics.min_insync_replicas, in_force.topics.min_insync_replicas
        if wanted != count and "min.insync.replicas" in own.given:
            logger.warning(
                "min.insync.replicas is %d for all brokers of this cluster, not %d as this broker was told: "
                "change it with ottla configs alter --config min.insync.replicas=%d",
                count,
                wanted,
                wanted,
            )

    def _open_logs(self, parts: Parts, image: ClusterImage) -> None:
        # The controller has decided what it trusts this directory with: a later start refers to now.
        self._directory.note_boot(self._runtime.process.boot_id())
        parts.hosting.open_all(image)

    def _identity(self, listeners: Listeners) -> Identity:
        return Identity(
            cluster_id=self.cluster_id,
            incarnation_id=self._foundation.incarnation_id,
            directory_ids=self._directory.directory_ids,
            previous_broker_epoch=self._directory.previous_broker_epoch,
            listeners=listeners.advertised,
            keeps_writes=self._directory.keeps_writes_of(self._runtime.process.boot_id()),
        )

    async def _on_image(self, before: ClusterImage, after: ClusterImage) -> None:
        """Carry a change of metadata out, in the order in which the parts depend on each other."""
        parts = self._built
        if before.configs is not after.configs:
            in_force = BrokerSettings(after, self.config.node.id, self.config).in_force
            parts.listeners.configure(in_force)
            parts.housekeeping.configure(in_force.producer_ids)
            parts.scrubber.configure(in_force.scrub)
        parts.services.quotas.apply(after.client_quotas)
        parts.listeners.apply(after.client_quotas)
        await parts.hosting.apply(before, after)
        parts.services.coordinators.apply(before, after)
        parts.services.transactions.apply(after)
        parts.fetchers.apply(before, after)
        parts.damaged.apply(before, after)

    def _halt(self, reason: str) -> None:
        logger.critical("this node cannot go on: %s", reason)
        if not self.halted.done():
            self.halted.set_result(reason)

    def _close_logs(self) -> None:
        """Close what there is; the mark of a clean stop is written last."""
        try:
            if self._are_logs_open:
                threads = self._runtime.threads
                self._directory.close_logs(partial(run_together, threads, _SYNC_THREADS, "ottla-close"))
                self._built.hosting.checkpoint()
        except OSError as problem:
            logger.error("the checkpoints could not be written: %s", problem)
        # Logs that were not opened are as they were left; a controller without topics has none.
        is_clean = self._are_logs_open or self._directory.was_closed_cleanly or not self.config.node.is_broker
        epoch = self._directory.previous_broker_epoch
        if self._parts is not None and self.quorum.broker_epoch != NO_BROKER_EPOCH:
            epoch = self.quorum.broker_epoch
        try:
            self._directory.close(epoch, clean=is_clean)
        except OSError as problem:
            logger.error("the stop is not marked as clean, the next start will check the logs: %s", problem)
