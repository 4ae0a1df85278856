"""The active controller's duties: a broker that is gone is fenced soon, a live one is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

from tests.unit.server.metadata import eventually

from ottla.config import BrokerConfig
from ottla.controller.commands import BalanceLeaders, FenceBrokers
from ottla.controller.image import BrokerImage, ClusterImage
from ottla.errors import ErrorCode
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.controller_duties import ControllerDuties
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.quorum import Quorum


class ActiveQuorum:
    """A quorum that is led here or not, as the test says, and carries fencing out."""

    def __init__(self) -> None:
        self.member = self
        self.is_controller = False
        self.former_leader_id: int | None = None
        self.decided: list[Any] = []
        self.tell: Callable[[], None] = lambda: None
        self.image = ClusterImage("c", brokers={node: broker(node) for node in (1, 2, 3)})

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def watch(self, watcher: Callable[[], None]) -> None:
        self.tell = watcher

    def lead(self, leads: bool) -> None:
        self.is_controller = leads
        self.tell()

    async def decide(self, command: Any) -> None:
        if not self.is_controller:
            raise NotControllerError
        self.decided.append(command)
        if isinstance(command, FenceBrokers):
            alive = {
                node: each for node, each in self.image.brokers.items() if node not in command.broker_ids
            }
            self.image = ClusterImage("c", brokers=alive)

    @property
    def fenced(self) -> list[int]:
        return [node for each in self.decided if isinstance(each, FenceBrokers) for node in each.broker_ids]


class KnownPeers:
    """Says who listens."""

    def __init__(self) -> None:
        self.listening = {1, 2, 3}

    async def is_listening(self, node_id: int, timeout_ms: int) -> bool:
        return node_id in self.listening

    def heard_ms(self, node_id: int) -> int | None:
        return None


def broker(node_id: int) -> BrokerImage:
    return BrokerImage(node_id, epoch=node_id * 10, incarnation_id=UUID(int=node_id), endpoints=())


def beat(node_id: int, epoch: int | None = None) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(node_id, node_id * 10 if epoch is None else epoch)


def on_duty(
    test: Callable[[ControllerDuties, ActiveQuorum, KnownPeers], Awaitable[None]], **settings: str
) -> None:
    async def main() -> None:
        quorum, peers = ActiveQuorum(), KnownPeers()
        names = {name.replace("_", "."): value for name, value in settings.items()}
        quick = {"broker.session.timeout.ms": "400", "broker.heartbeat.interval.ms": "100", **names}
        config = BrokerConfig.from_properties({"ottla.broker.disconnect.grace.ms": "30", **quick})
        duties = ControllerDuties(config, cast(Quorum, quorum), cast(Peers, peers))
        try:
            async with asyncio.timeout(10):
                await test(duties, quorum, peers)
        finally:
            await duties.stop()

    asyncio.run(main())


def test_a_silent_broker_is_fenced_when_its_session_ends_and_this_one_never() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        quorum.lead(True)
        loop = asyncio.get_running_loop()
        beating = [loop.call_later(after / 10, duties.heard, beat(2), "two") for after in range(30)]
        await eventually(lambda: bool(quorum.fenced), "somebody is fenced")
        assert quorum.fenced == [3]
        for each in beating:
            each.cancel()
        await eventually(lambda: quorum.fenced == [3, 2], "the other falls silent, too")

    on_duty(test)


def test_a_broker_whose_connection_closes_is_fenced_after_the_grace() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        quorum.lead(True)
        duties.heard(beat(2), "old")
        duties.heard(beat(2), "new")
        duties.heard(beat(3), "three")
        began = quorum.now_ms()
        duties.disconnected(2, "old")
        duties.disconnected(3, "three")
        await eventually(lambda: bool(quorum.fenced), "it is fenced")
        assert quorum.fenced == [3], "the other has a newer connection"
        assert quorum.now_ms() - began < 1_000

    on_duty(test, broker_session_timeout_ms="60000")


def test_a_new_controller_looks_whether_those_it_has_not_heard_of_are_there() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        peers.listening = {1, 3}
        quorum.lead(True)
        await eventually(lambda: quorum.fenced == [2], "nobody listens there")

    on_duty(test, broker_session_timeout_ms="60000")


def test_who_is_not_the_controller_fences_nobody() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        duties.heard(beat(2), "two")
        duties.disconnected(2, "two")
        quorum.lead(True)
        quorum.lead(False)
        peers.listening = set()
        await asyncio.sleep(0.1)
        assert not quorum.decided

    on_duty(test, broker_session_timeout_ms="100")


def test_a_heartbeat_of_a_former_life_keeps_nobody_alive() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        quorum.lead(True)
        loop = asyncio.get_running_loop()
        beating = [loop.call_later(after / 10, duties.heard, beat(2, epoch=7), "two") for after in range(30)]
        await eventually(lambda: set(quorum.fenced) == {2, 3}, "both are fenced")
        for each in beating:
            each.cancel()

    on_duty(test)


def test_two_living_brokers_cannot_have_one_id() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        quorum.lead(True)
        stranger = BrokerRegistrationRequest(broker_id=2, incarnation_id=UUID(int=99))
        same = BrokerRegistrationRequest(broker_id=2, incarnation_id=UUID(int=2))
        assert duties.registration_refusal(stranger) is None, "nobody has heard of it yet"
        duties.heard(beat(2), "two")
        refusal = duties.registration_refusal(stranger)
        assert refusal is not None
        assert refusal.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert duties.registration_refusal(same) is None
        duties.disconnected(2, "two")
        assert duties.registration_refusal(stranger) is None, "it went away: this may be its next life"

    on_duty(test, broker_session_timeout_ms="60000")


def test_leaders_are_given_back_from_time_to_time() -> None:
    async def test(duties: ControllerDuties, quorum: ActiveQuorum, peers: KnownPeers) -> None:
        quorum.lead(True)
        await eventually(lambda: BalanceLeaders(25) in quorum.decided, "it looks for leaders to give back")

    on_duty(
        test,
        broker_session_timeout_ms="60000",
        leader_imbalance_check_interval_seconds="1",
        leader_imbalance_per_broker_percentage="25",
    )
