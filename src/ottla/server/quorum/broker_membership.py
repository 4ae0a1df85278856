"""This broker's membership in the cluster: it registers, shows that it lives, and says when it goes (CTL-1).

A broker is registered fenced. It is let in when a heartbeat shows that it has replayed its own registration;
from then on heartbeats keep its session. A controller that is new hears of it at once. One that does not know
this broker any more, or knows a newer life of it, gets the registration again. A broker that stops hands
over what it leads first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.config import Listener as ListenerAddress
from ottla.config.listeners import PROTOCOL_NUMBERS
from ottla.controller.image import CAPACITY_FEATURE, LOST_DIRECTORY
from ottla.controller.records import TRANSACTION_VERSION_FEATURE, TRANSACTION_VERSION_LEVEL
from ottla.controller.replica_trust import KEPT_WRITES_FEATURE
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_BROKER_EPOCH
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.server.quorum.quorum import Quorum
from ottla.server.quorum.replica_directories import assignment

logger = logging.getLogger(__name__)

# How long one attempt to reach the controller may take; the next follows at once.
_ATTEMPT_MS: Final = 1_000
_RETRY_S: Final = 0.02
_COMPLAINT_S: Final = 5.0
_UNKNOWN_HERE: Final = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)
_FATAL: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INCONSISTENT_CLUSTER_ID)
_REFUSALS: Final = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "it belongs to another cluster: give all nodes the same ottla.cluster.id before "
    "their data directories are first used, or this one an empty directory",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster uses features that this version of Ottla does not know",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Which life of which broker this is.

    `directory_ids`: of the log directory, the present id first. `listeners`: where clients and brokers reach the
    broker. `keeps_writes`: nothing is lost of what earlier lives wrote to the directory.
    """

    cluster_id: str
    incarnation_id: UUID
    directory_ids: tuple[UUID, ...]
    previous_broker_epoch: int
    listeners: tuple[ListenerAddress, ...]
    keeps_writes: bool = False


class Membership:
    """Registers once, then beats until it is stopped."""

    def __init__(self, config: BrokerConfig, quorum: Quorum, identity: Identity) -> None:
        self._config = config
        self._quorum = quorum
        self._identity = identity
        self._beating: asyncio.Task[None] | None = None
        self._now = asyncio.Event()  # do not wait for the next beat
        self._admitted: asyncio.Future[None] | None = None
        self._wants_to_stop = False
        self._is_directory_offline = False
        self._may_stop = asyncio.Event()
        quorum.watch(self._now.set)

    @property
    def broker_epoch(self) -> int:
        return self._quorum.broker_epoch

    async def register(self) -> None:
        """Become known to the controller, however long it takes to find one, and replay the registration.

        KafkaError if the cluster does not want this broker.
        """
        await self._register()
        await self._quorum.replayed(self.broker_epoch)

    async def report_lost(self, replicas: Iterable[tuple[UUID, int]]) -> None:
        """Tell the controller, however long it takes, which replicas lack records that they held."""
        lost = list(replicas)
        while lost:
            request = assignment(self._config.node.id, self.broker_epoch, LOST_DIRECTORY, lost)
            try:
                response = await self._quorum.submit(request, timeout_ms=_ATTEMPT_MS)
            except KafkaError as error:
                logger.debug("lost replicas are not reported yet: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            if response.error_code in _UNKNOWN_HERE:
                await self._register()
            elif response.error_code:
                raise _refusal(ErrorCode(response.error_code))
            else:
                return

    async def join(self) -> None:
        """Beat from now on; return when the broker is let in."""
        loop = asyncio.get_running_loop()
        self._admitted = loop.create_future()
        self._beating = loop.create_task(self._beat())
        await self._admitted

    def directory_is(self, is_offline: bool) -> None:
        """Tell the controller at once whether the log directory can be used."""
        self._is_directory_offline = is_offline
        self._quorum.directory_is(is_offline)
        self._now.set()

    async def leave(self, timeout_s: float) -> None:
        """Have others take over what this broker leads; not longer than a while, for it stops in any case."""
        if self._beating is None or self._beating.done():
            return
        self._wants_to_stop = True
        self._now.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self._may_stop.wait()
        except TimeoutError:
            logger.warning(
                "no other broker took over the partitions that this broker leads within %.1f s", timeout_s
            )

    async def stop(self) -> None:
        """Beat no more."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    # ---- registration

    async def _register(self) -> None:
        request = self._registration()
        complain_at = asyncio.get_running_loop().time() + _COMPLAINT_S
        while True:
            try:
                response: BrokerRegistrationResponse = await self._quorum.submit(
                    request, timeout_ms=_ATTEMPT_MS
                )
            except KafkaError as error:
                if error.code in _FATAL:
                    raise
                complain_at = self._complain(error.message, complain_at)
                await asyncio.sleep(_RETRY_S)
                continue
            if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                complain_at = self._complain(
                    f"another broker with the id {self._config.node.id} is running", complain_at
                )
                await asyncio.sleep(_RETRY_S * 5)
                continue
            if response.error_code:
                raise _refusal(ErrorCode(response.error_code))
            self._quorum.registered(response.broker_epoch)
            return

    def _complain(self, what: str, at: float) -> float:
        now = asyncio.get_running_loop().time()
        if now < at:
            return at
        logger.warning("this broker waits for a controller that lets it in: %s", what)
        return now + _COMPLAINT_S

    def _registration(self) -> BrokerRegistrationRequest:
        config, identity = self._config, self._identity
        is_again = self.broker_epoch != NO_BROKER_EPOCH
        known_epoch = self.broker_epoch if is_again else identity.previous_broker_epoch
        keeps_writes = int(is_again or identity.keeps_writes)
        return BrokerRegistrationRequest(
            broker_id=config.node.id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(each.name, each.host, each.port, PROTOCOL_NUMBERS[each.protocol])
                for each in identity.listeners
            ],
            features=[
                Feature(CAPACITY_FEATURE, 0, config.membership.capacity),
                Feature(KEPT_WRITES_FEATURE, 0, keeps_writes),
                Feature(TRANSACTION_VERSION_FEATURE, 0, TRANSACTION_VERSION_LEVEL),
            ],
            rack=config.node.rack,
            previous_broker_epoch=known_epoch,
            log_dirs=list(identity.directory_ids),
        )

    # ---- heartbeats

    async def _beat(self) -> None:
        interval_s = self._config.membership.heartbeat_interval_ms / 1000
        while True:
            self._now.clear()
            is_heard = await self._beat_once()
            wait_s = interval_s if is_heard else _RETRY_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._now.wait()
            except TimeoutError:
                pass

    async def _beat_once(self) -> bool:
        """Whether the controller has answered, and nothing has to be told it at once."""
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node.id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._quorum.image.last_offset,
            want_shut_down=self._wants_to_stop,
            offline_log_dirs=list(self._identity.directory_ids) if self._is_directory_offline else [],
        )
        try:
            response: BrokerHeartbeatResponse = await self._quorum.submit(request, timeout_ms=_ATTEMPT_MS)
        except KafkaError as error:
            logger.debug("no heartbeat: %s", error)
            return False
        self._quorum.answered()
        if response.error_code in _UNKNOWN_HERE:
            await self._come_back()
            return False
        if response.error_code:
            logger.error("the controller refuses this broker's heartbeat: %s", ErrorCode(response.error_code))
            return True
        return self._heard(response)

    def _heard(self, response: BrokerHeartbeatResponse) -> bool:
        if response.should_shut_down:
            self._may_stop.set()
        if not response.is_fenced and self._admitted is not None and not self._admitted.done():
            self._admitted.set_result(None)
        return not response.is_fenced or self._wants_to_stop

    async def _come_back(self) -> None:
        """The controller does not know this life of this broker: tell it again, as long as we live."""
        logger.warning("the controller does not know this broker any more: registering again")
        try:
            await self._register()
        except KafkaError as error:
            logger.error("%s", error.message)
            return
        await self._quorum.replayed(self.broker_epoch)


def _refusal(code: ErrorCode) -> KafkaError:
    why = _REFUSALS.get(code, code.name)
    return KafkaError(code, f"The controller refuses this broker: {why}.")
