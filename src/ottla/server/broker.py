"""The composition root: builds a broker from its settings, starts it, stops it."""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from uuid import UUID, uuid4

from ottla.config import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import NO_BROKER_EPOCH, LogDirectory
from ottla.log.disk import Disk, OsDisk
from ottla.log.open_files import OpenFiles
from ottla.protocol.messages.brokers import BrokerRegistrationRequest
from ottla.protocol.messages.brokers import Listener as RegisteredListener
from ottla.replication.fetch_session import FetchSessions
from ottla.server.apis.table import handler_of
from ottla.server.compaction import Compaction
from ottla.server.coordinators import Coordinators
from ottla.server.descriptors import open_files_within, raise_descriptor_limit
from ottla.server.dispatch import Dispatcher
from ottla.server.flushing import Flusher
from ottla.server.follower_sessions import FollowerSessions
from ottla.server.hosting import Hosting
from ottla.server.housekeeping import Housekeeping
from ottla.server.listener import Listener, ListenerLimits
from ottla.server.partitions import HostedPartition, Partitions
from ottla.server.producer_ids import ProducerIds
from ottla.server.quorum import METADATA_TOPIC, Quorum
from ottla.server.removal import Remover
from ottla.server.services import Services

logger = logging.getLogger(__name__)

# How long a stopping broker lets answers leave; the rest of its second belongs to the disk.
_DRAIN_S = 0.3


def now_ms() -> int:
    """Wall-clock time, the time of records."""
    return time.time_ns() // 1_000_000


class Broker:
    """A running node. `start` once, `stop` once."""

    def __init__(self, config: BrokerConfig, disk: Disk | None = None) -> None:
        self.config = config
        disk = disk or OsDisk()
        files = open_files_within(config.ottla_open_files_max, raise_descriptor_limit())
        open_files = OpenFiles(files, files)
        self._directory = LogDirectory(disk, config.data_directory, open_files)
        self._flusher = Flusher()
        self._remover = Remover()
        self._broker_epoch = NO_BROKER_EPOCH
        self._is_open = False
        self._quorum: Quorum | None = None
        self._listener: Listener | None = None
        self._housekeeping: Housekeeping | None = None
        self._compaction: Compaction | None = None
        self._hosting: Hosting | None = None
        self._partitions: Partitions | None = None
        self._coordinators: Coordinators | None = None

    @property
    def port(self) -> int:
        """The port it listens on; the kernel's choice where the settings say 0."""
        return self.listener.port

    @property
    def listener(self) -> Listener:
        """Its door, once it has started."""
        assert self._listener is not None
        return self._listener

    @property
    def cluster_id(self) -> str:
        """The cluster this node belongs to."""
        return self._directory.cluster_id

    @property
    def partitions(self) -> Partitions:
        """What it hosts, once it has started."""
        assert self._partitions is not None
        return self._partitions

    async def start(self) -> None:
        """Open the data directory, recover what needs it, listen. Raises OSError and KafkaError with what to do."""
        try:
            self._directory.open(self.config.node_id, _new_uuid)
            self._broker_epoch = self._directory.previous_broker_epoch
            quorum, partitions, hosting = self._open_metadata()
            await asyncio.get_running_loop().run_in_executor(None, hosting.open_all, quorum.image)
            self._is_open = True
            self._listen(quorum, partitions, hosting)
            quorum.start()
            await self._register(quorum)
            # Whoever came meanwhile waits at the door: before the registration there is no broker to tell about.
            self.listener.start_accepting()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answer what is under way, flush, mark the stop as clean."""
        if self._listener is not None:
            self._listener.stop_accepting()
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        if self._compaction is not None:
            await self._compaction.stop()
        if self._partitions is not None:
            for partition in self._partitions:
                partition.wake_readers()
        if self._coordinators is not None:
            await self._coordinators.stop()
        if self._listener is not None:
            await self._listener.drain(_DRAIN_S)
        if self._quorum is not None:
            await self._quorum.stop()
        await self._flusher.stop()
        self._remover.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._close_logs)

    def _open_metadata(self) -> tuple[Quorum, Partitions, Hosting]:
        controller = Controller(self.config.node_id, self.cluster_id, self.config, _new_uuid)
        log = self._directory.open_metadata_log(METADATA_TOPIC, now_ms())
        partitions = Partitions(lambda: quorum.image)
        hosting = Hosting(self.config, self._directory, partitions, self._remover, now_ms)
        quorum = Quorum(controller, log, now_ms, self._on_image)
        quorum.replay()
        self._quorum, self._partitions, self._hosting = quorum, partitions, hosting
        return quorum, partitions, hosting

    async def _on_image(self, before: ClusterImage, after: ClusterImage) -> None:
        """Carry a change of metadata out, in the order in which the parts depend on each other."""
        assert self._hosting is not None
        await self._hosting.apply(before, after)
        if self._coordinators is not None:
            self._coordinators.apply(before, after)

    def _listen(self, quorum: Quorum, partitions: Partitions, hosting: Hosting) -> None:
        config = self.config
        self._coordinators = Coordinators(config, quorum, partitions, self._flusher, now_ms)
        self._coordinators.start()
        services = Services(
            config=config,
            quorum=quorum,
            partitions=partitions,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, _new_session_id),
            follower_sessions=FollowerSessions(),
            flusher=self._flusher,
            producer_ids=ProducerIds(quorum, config.node_id),
            coordinators=self._coordinators,
            now_ms=now_ms,
        )
        listener = Listener(
            config.listener.host, config.listener.port, Dispatcher(services, handler_of), _limits(config)
        )
        listener.bind()
        self._listener = listener
        self._housekeeping = Housekeeping(config, partitions, hosting, self._flusher, listener, now_ms)
        self._housekeeping.start(after_crash=not self._directory.was_closed_cleanly)
        if config.log_cleaner_enable:
            self._compaction = Compaction(config, partitions, self._directory, now_ms)
            self._compaction.start()

    async def _register(self, quorum: Quorum) -> None:
        advertised = self.config.advertised_listener
        request = BrokerRegistrationRequest(
            broker_id=self.config.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=uuid4(),
            listeners=[
                RegisteredListener(
                    name=advertised.name,
                    host=advertised.host or socket.gethostname(),
                    port=advertised.port or self.port,
                    security_protocol=0,
                )
            ],
            rack=self.config.broker_rack,
            previous_broker_epoch=self._directory.previous_broker_epoch,
            log_dirs=[self._directory.directory_id],
        )
        response = await quorum.submit(request)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), "the controller refused this broker")
        self._broker_epoch = response.broker_epoch

    def _close_logs(self) -> None:
        """Close what there is. One log that cannot be closed keeps none of the others from it."""
        try:
            if self._is_open and self._hosting is not None:
                for partition in self.partitions:
                    _close(partition)
                self._hosting.checkpoint()
        except OSError as problem:
            logger.error("the checkpoints could not be written: %s", problem)
        try:
            self._directory.close(self._broker_epoch, clean=self._is_open)
        except OSError as problem:
            logger.error("the stop is not marked as clean, the next start will check the logs: %s", problem)


def _close(partition: HostedPartition) -> None:
    try:
        partition.log.close()
    except OSError as problem:
        logger.error("%s could not be closed, the next start will check it: %s", partition.name, problem)


def _limits(config: BrokerConfig) -> ListenerLimits:
    return ListenerLimits(
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        connections_max_idle_ms=config.connections_max_idle_ms,
        idle_buffer_release_ms=config.ottla_idle_buffer_release_ms,
        socket_request_max_bytes=config.socket_request_max_bytes,
        queued_response_max_bytes=config.ottla_connection_response_bytes,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
        socket_receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def _new_uuid() -> UUID:
    return uuid4()


def _new_session_id() -> int:
    return int.from_bytes(os.urandom(4), "big") >> 1


def run(config: BrokerConfig, on_ready: Callable[[Broker], None]) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises what `Broker.start` raises."""
    asyncio.run(_run(config, on_ready))


async def _run(config: BrokerConfig, on_ready: Callable[[Broker], None]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = Broker(config)
    await broker.start()
    on_ready(broker)
    await stopping.wait()
    logger.info("stopping")
    await broker.stop()
