"""The duties of the active controller: it fences brokers that are gone, and gives leaders back (CTL-3,
CTL-7).

Which brokers live is soft state (`controller.liveness`): heartbeats, and the connections that carry them. A
new controller has heard of no broker yet; it tries to connect to the silent ones, and a
refusal counts like a connection that closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from typing import Final

from ottla.config import BrokerConfig
from ottla.controller.commands import BalanceLeaders, ExpireTokens, FenceBrokers
from ottla.controller.liveness import BrokerLiveness
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.quorum import Quorum
from ottla.server.quorum.unclean_recovery import UncleanRecovery

logger = logging.getLogger(__name__)

# A living broker tells a new controller of itself at once; silent brokers are looked for after this.
_PROBE_AFTER_S: Final = 0.02
_PROBE_EVERY_S: Final = 0.2
_PROBE_MS: Final = 1_000


class ControllerDuties:
    """Starts when this node becomes the active controller, stops when it is no longer."""

    def __init__(self, config: BrokerConfig, quorum: Quorum, peers: Peers) -> None:
        self._config = config
        self._quorum = quorum
        self._peers = peers
        self._liveness = BrokerLiveness(
            config.membership.session_timeout_ms, config.membership.disconnect_grace_ms
        )
        self._recovery = UncleanRecovery(config, quorum, peers)
        self._tasks: list[asyncio.Task[None]] = []
        self._now = asyncio.Event()  # look again, something changed
        quorum.watch(self._controller_changed)

    async def stop(self) -> None:
        """Do nothing any more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- what brokers tell

    def heard(self, request: BrokerHeartbeatRequest, connection: Hashable) -> None:
        """A heartbeat came over a connection."""
        broker = self._quorum.image.brokers.get(request.broker_id)
        if broker is not None and broker.epoch == request.broker_epoch:
            self._liveness.heard(request.broker_id, self._now_ms(), connection)

    def disconnected(self, broker_id: int, connection: Hashable) -> None:
        """The connection of a broker's heartbeats was closed."""
        self._liveness.disconnected(broker_id, self._now_ms(), connection)
        self._now.set()

    def registration_refusal(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse | None:
        """Two living brokers cannot have one id."""
        former = self._quorum.image.brokers.get(request.broker_id)
        if former is None or former.incarnation_id == request.incarnation_id:
            return None
        if not self._liveness.is_present(request.broker_id, self._now_ms()):
            return None
        return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)

    # ---- leadership of the quorum

    def _controller_changed(self) -> None:
        if self._quorum.is_controller == bool(self._tasks):
            return
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._liveness.deactivate()
        if self._quorum.is_controller:
            former_id = self._quorum.former_leader_id
            heard_ms = None if former_id is None else self._peers.heard_ms(former_id)
            heard = {} if former_id is None or heard_ms is None else {former_id: heard_ms}
            self._liveness.activate(self._quorum.image, self._now_ms(), heard)
            loop = asyncio.get_running_loop()
            duties = (self._watch(), self._probe(), self._recovery.run())
            self._tasks = [loop.create_task(duty) for duty in duties]
            if self._config.leader_balance.enable:
                self._tasks.append(loop.create_task(self._balance()))
            if self._config.delegation_tokens.secret_key is not None:
                self._tasks.append(loop.create_task(self._expire_tokens()))

    # ---- duties

    async def _watch(self) -> None:
        """Fence brokers as soon as they count as gone."""
        while True:
            deadline_ms = self._liveness.next_deadline_ms(self._quorum.image)
            wait_ms = 1_000 if deadline_ms is None else deadline_ms - self._now_ms()
            try:
                async with asyncio.timeout(max(wait_ms, 1) / 1000):
                    await self._now.wait()
            except TimeoutError:
                pass
            self._now.clear()
            # This node is there: it is the one that looks.
            self._liveness.heard(self._config.node.id, self._now_ms(), self)
            gone = self._liveness.expired(self._quorum.image, self._now_ms())
            if gone:
                self._report(gone)
                await self._decide(FenceBrokers(tuple(gone)))

    def _report(self, gone: list[int]) -> None:
        for node_id in gone:
            if self._quorum.image.brokers[node_id].in_controlled_shutdown:
                logger.info("broker %d has stopped", node_id)
            else:
                logger.warning(
                    "broker %d is not heard of any more: it is fenced, others lead for it", node_id
                )

    async def _probe(self) -> None:
        """See whether the brokers that this controller has not heard of are there at all, until all are heard or gone:
        a broker may die before it has found this controller.
        """
        pause_s = _PROBE_AFTER_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = _PROBE_EVERY_S
            found = self._liveness.unheard(self._quorum.image)
            unheard = [each for each in found if each != self._config.node.id]
            if not unheard:
                return
            await asyncio.gather(*(self._probe_one(broker_id) for broker_id in unheard))

    async def _probe_one(self, broker_id: int) -> None:
        if not await self._peers.is_listening(broker_id, _PROBE_MS):
            self._liveness.disconnected(broker_id, self._now_ms())
            self._now.set()

    async def _balance(self) -> None:
        while True:
            await asyncio.sleep(self._config.leader_balance.check_interval_seconds)
            await self._decide(BalanceLeaders(self._config.leader_balance.imbalance_per_broker_percentage))

    async def _expire_tokens(self) -> None:
        while True:
            await asyncio.sleep(self._config.delegation_tokens.expiry_check_interval_ms / 1000)
            if self._quorum.image.delegation_tokens:
                await self._decide(ExpireTokens())

    async def _decide(self, command: FenceBrokers | BalanceLeaders | ExpireTokens) -> None:
        try:
            await self._quorum.decide(command)
        except NotControllerError:
            logger.debug("this node is not the controller any more")
        except KafkaError as error:
            logger.error("%s failed: %s", type(command).__name__, error)

    def _now_ms(self) -> int:
        return self._quorum.member.now_ms()
