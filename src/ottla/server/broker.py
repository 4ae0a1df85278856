"""The composition root: builds a broker from its settings, starts it, stops it.

A node first takes part in the metadata quorum, which needs nothing but its metadata log and a door for other
nodes. A broker then registers, opens the logs that the image places on it, and is let in; clients wait at the
door until then.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.model import NO_BROKER_EPOCH
from ottla.replication.fetch_session import FetchSessions
from ottla.runtime.runtime import Runtime
from ottla.server.apis.table import registered
from ottla.server.coordinators.coordinators import Coordinators
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.handlers import Registered
from ottla.server.gate.services import Services
from ottla.server.housekeeping import Housekeeping
from ottla.server.load_metrics import Load
from ottla.server.net.descriptor_limit import open_files_within, raise_descriptor_limit
from ottla.server.net.listener import Listener
from ottla.server.partitions.compaction import Compaction
from ottla.server.partitions.file_removal import Remover
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.broker_membership import Identity, Membership
from ottla.server.quorum.controller_duties import ControllerDuties
from ottla.server.quorum.opening import open_directory, open_quorum
from ottla.server.quorum.producer_ids import ProducerIds
from ottla.server.quorum.quorum import Quorum
from ottla.server.replicas.fetcher_lane import FetcherServices
from ottla.server.replicas.fetchers import Fetchers
from ottla.server.replicas.follower_sessions import FollowerSessions
from ottla.server.replicas.isr_proposals import Isr

logger = logging.getLogger(__name__)

# How long a stopping broker lets others take over what it leads, and then its answers leave; the rest of its
# second belongs to the disk.
_HANDOVER_S: Final = 0.5
_DRAIN_S: Final = 0.3


class Broker:
    """A running node. `start` once, `stop` once. `halted` is done, with the reason, if it cannot go on.

    Tests may give a runtime with parts of their own (a disk, a network), or handlers of their own.
    """

    def __init__(
        self, config: BrokerConfig, runtime: Runtime | None = None, handlers: Registered = registered
    ) -> None:
        self.config = config
        self._runtime = runtime = runtime or Runtime()
        self._handlers = handlers
        files = open_files_within(config.logs.open_files_max, raise_descriptor_limit())
        open_files = OpenFiles(files, files)
        self._directory = LogDirectory(runtime.disk, config.logs.directory, open_files)
        self._incarnation_id = runtime.random.uuid4()
        self._flusher = Flusher(runtime.threads)
        self._remover = Remover(runtime.threads)
        self._are_logs_open = False
        self.halted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._parts: _Parts | None = None
        self._membership: Membership | None = None

    @property
    def port(self) -> int:
        """The port it listens on; the kernel's choice where the settings say 0."""
        return self.listener.port

    @property
    def listener(self) -> Listener:
        """Its door, once it has started."""
        return self._built.listener

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
    def _built(self) -> "_Parts":
        assert self._parts is not None
        return self._parts

    async def start(self) -> None:
        """Open the data directory, find the quorum, recover what needs it, let clients in.

        Raises OSError and KafkaError with what to do. Without a quorum it waits.
        """
        try:
            open_directory(self.config, self._directory, self._runtime.random.uuid4)
            parts = self._parts = self._build()
            parts.listener.bind()
            parts.listener.start_accepting()
            parts.quorum.start()
            if self.config.node.is_broker:
                await self._join(parts)
            else:
                await parts.quorum.has_controller()
            # Clients that connected meanwhile wait at the gate: before the broker is unfenced, metadata does
            # not name it.
            parts.listener.open_gate()
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
            parts.listener.stop_accepting()
        await self._stop_work(parts, membership)
        await asyncio.get_running_loop().run_in_executor(None, self._close_logs)

    async def abort(self) -> None:
        """End as a process that is killed: no handover, nothing marked as clean. For tests."""
        parts, membership = self._parts, self._membership
        if parts is not None:
            parts.listener.stop_accepting()
            await parts.listener.drain(0)
            await parts.quorum.peers.close()
        await self._stop_work(parts, membership)
        self._directory.close(clean=False)

    async def _stop_work(self, parts: "_Parts | None", membership: Membership | None) -> None:
        """End all tasks and threads; the logs stay open."""
        if membership is not None:
            await membership.stop()
        if parts is not None:
            await self._stop_parts(parts)
        await self._flusher.stop()
        self._remover.stop()

    async def _stop_parts(self, parts: "_Parts") -> None:
        await parts.services.load.stop()
        await parts.housekeeping.stop()
        if parts.compaction is not None:
            await parts.compaction.stop()
        await parts.isr.stop()
        await parts.fetchers.stop()
        for partition in parts.partitions:
            partition.waiters.wake()
        await parts.services.coordinators.stop()
        await parts.listener.drain(_DRAIN_S)
        await parts.services.duties.stop()
        await parts.quorum.stop()
        await parts.quorum.peers.close()

    def _has_successors(self, quorum: Quorum) -> bool:
        return self.config.membership.controlled_shutdown_enable and len(quorum.image.live_brokers) > 1

    def _build(self) -> "_Parts":
        config, runtime, now_ms = self.config, self._runtime, self._runtime.clock.wall_ms
        quorum = open_quorum(config, self._directory, runtime, self._on_image, self._halt)
        partitions = Partitions(lambda: quorum.image)
        isr = Isr(config, quorum, partitions)
        hosting = Hosting(
            config,
            self._directory,
            partitions,
            self._remover,
            now_ms,
            incarnation_id=self._incarnation_id,
            propose=isr.propose,
        )
        sessions = FollowerSessions(self._new_session_id)
        services = Services(
            config=config,
            quorum=quorum,
            duties=ControllerDuties(config, quorum, quorum.peers),
            partitions=partitions,
            fetch_sessions=FetchSessions(
                config.fetches.max_incremental_session_cache_slots, self._new_session_id
            ),
            follower_sessions=sessions,
            flusher=self._flusher,
            producer_ids=ProducerIds(quorum),
            coordinators=Coordinators(config, quorum, partitions, self._flusher, runtime),
            load=Load(config.logs.directory, partitions, lambda: listener.traffic, runtime),
            disk=runtime.disk,
            now_ms=now_ms,
        )
        gate = Gate(services, self._handlers)
        listener = Listener(config.node.listener, gate, config.connections, runtime.network)
        return _Parts(
            quorum=quorum,
            services=services,
            partitions=partitions,
            hosting=hosting,
            isr=isr,
            fetchers=Fetchers(
                FetcherServices(config, quorum, hosting, quorum.peers, self._flusher, now_ms),
                partitions,
                sessions,
            ),
            listener=listener,
            housekeeping=Housekeeping(config, partitions, hosting, self._flusher, listener, now_ms),
            compaction=Compaction(config.cleaner, partitions, self._directory, runtime, now_ms)
            if config.cleaner.enable
            else None,
        )

    async def _join(self, parts: "_Parts") -> None:
        """Register, open the logs, have changes carried out from now on, be let in."""
        quorum = parts.quorum
        membership = self._membership = Membership(self.config, quorum, self._identity(parts.listener))
        await membership.register()
        image = quorum.image
        await asyncio.get_running_loop().run_in_executor(None, self._open_logs, parts, image)
        self._are_logs_open = True
        parts.services.load.start()
        parts.isr.start()
        parts.fetchers.start()
        parts.services.coordinators.start()
        parts.housekeeping.start(after_crash=not self._directory.was_closed_cleanly)
        if parts.compaction is not None:
            parts.compaction.start()
        # The logs are open; the first image assigns leaders and followers.
        quorum.deliver(ClusterImage(self.cluster_id))
        await quorum.in_force(image.last_offset)
        await membership.join()

    def _open_logs(self, parts: "_Parts", image: ClusterImage) -> None:
        # The controller has decided what it trusts this directory with: a later start refers to now.
        self._directory.note_boot(self._runtime.process.boot_id())
        parts.hosting.open_all(image)

    def _identity(self, listener: Listener) -> Identity:
        advertised = self.config.node.advertised_listener
        return Identity(
            cluster_id=self.cluster_id,
            incarnation_id=self._incarnation_id,
            directory_id=self._directory.directory_id,
            previous_broker_epoch=self._directory.previous_broker_epoch,
            host=advertised.host or self._runtime.network.host_name(),
            port=advertised.port or listener.port,
            keeps_writes=self._directory.keeps_writes_of(self._runtime.process.boot_id()),
        )

    async def _on_image(self, before: ClusterImage, after: ClusterImage) -> None:
        """Carry a change of metadata out, in the order in which the parts depend on each other."""
        parts = self._built
        await parts.hosting.apply(before, after)
        parts.services.coordinators.apply(before, after)
        parts.fetchers.apply(before, after)

    def _new_session_id(self) -> int:
        return self._runtime.random.randrange(1, 1 << 31)

    def _halt(self, reason: str) -> None:
        logger.critical("this node cannot go on: %s", reason)
        if not self.halted.done():
            self.halted.set_result(reason)

    def _close_logs(self) -> None:
        """Close what there is. One log that cannot be closed keeps none of the others from it."""
        try:
            if self._are_logs_open:
                for partition in self.partitions:
                    _close(partition)
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


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a node, built together."""

    quorum: Quorum
    services: Services
    partitions: Partitions
    hosting: Hosting
    isr: Isr
    fetchers: Fetchers
    listener: Listener
    housekeeping: Housekeeping
    compaction: Compaction | None


def _close(partition: HostedPartition) -> None:
    try:
        partition.log.close()
    except OSError as problem:
        logger.error("%s could not be closed, the next start will check it: %s", partition.name, problem)


class HaltedError(RuntimeError):
    """The node could not go on; the message says why."""


def run(config: BrokerConfig, on_ready: Callable[[Broker], None]) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises what `Broker.start` raises, and HaltedError."""
    asyncio.run(_run(config, on_ready))


async def _run(config: BrokerConfig, on_ready: Callable[[Broker], None]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = Broker(config)
    starting, stopped = loop.create_task(broker.start()), loop.create_task(stopping.wait())
    ends: set[asyncio.Future[Any]] = {stopped, broker.halted}
    await asyncio.wait({starting, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It stops itself when its start is broken off.
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    else:
        starting.result()
        on_ready(broker)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        logger.info("stopping")
        await broker.stop()
    if broker.halted.done():
        raise HaltedError(broker.halted.result())
    stopped.cancel()
