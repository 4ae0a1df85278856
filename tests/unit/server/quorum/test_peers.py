"""Asking other nodes: one connection for each purpose, given up when it is silent, watched when it dies."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.wire.fake_broker import HANG_UP, SILENCE, FakeBroker

from ottla.localcluster.ports import HOST, free_port
from ottla.model import Address
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.server.quorum import peers as peers_module
from ottla.server.quorum.peers import Peers
from ottla.wire.connection import CannotConnectError
from ottla.wire.stream import ConnectionLostError

HEARTBEAT = BrokerHeartbeatRequest(broker_id=1)
SOON_MS = 5_000


def run(test: Callable[[FakeBroker, Peers, list[int]], Awaitable[None]]) -> None:
    async def main() -> None:
        async with FakeBroker().on(
            BrokerHeartbeatRequest, BrokerHeartbeatResponse(is_fenced=False)
        ) as broker:
            lost: list[int] = []
            peers = Peers(1, lambda node: Address(HOST, broker.port) if node == 2 else None)
            peers.watch(lambda node_id, purpose: lost.append(node_id))
            try:
                await test(broker, peers, lost)
            finally:
                await peers.close()

    asyncio.run(main())


def test_requests_of_one_purpose_share_a_connection_and_say_who_asks() -> None:
    async def test(broker: FakeBroker, peers: Peers, lost: list[int]) -> None:
        asked = [peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=SOON_MS) for _ in range(3)]
        answers = await asyncio.gather(*asked, peers.ask(2, HEARTBEAT, purpose="b", timeout_ms=SOON_MS))
        assert [answer.is_fenced for answer in answers] == [False] * 4
        assert broker.connections == 2
        greeting, first = broker.asked[0], broker.asked[-1]
        assert isinstance(greeting[1], ApiVersionsRequest)
        assert (greeting[0].client_id, first[0].client_id, first[0].api_version) == (
            "broker-1",
            "broker-1",
            1,
        )
        assert not lost

    run(test)


def test_a_connection_that_dies_is_told_of_and_opened_again() -> None:
    async def test(broker: FakeBroker, peers: Peers, lost: list[int]) -> None:
        answer = broker.answer_to(BrokerHeartbeatRequest)
        broker.on(BrokerHeartbeatRequest, HANG_UP)
        with pytest.raises(ConnectionLostError):
            await peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=SOON_MS)
        assert lost == [2]
        broker.on(BrokerHeartbeatRequest, answer)
        assert not (await peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=SOON_MS)).is_fenced

    run(test)


def test_a_silent_node_is_not_dead_but_its_connection_is_given_up() -> None:
    async def test(broker: FakeBroker, peers: Peers, lost: list[int]) -> None:
        answer = broker.answer_to(BrokerHeartbeatRequest)
        await peers.ask(
            2, HEARTBEAT, purpose="a", timeout_ms=SOON_MS
        )  # the short limit is not for connecting
        broker.on(BrokerHeartbeatRequest, SILENCE)
        with pytest.raises(TimeoutError):
            await peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=30)
        assert not lost
        broker.on(BrokerHeartbeatRequest, answer)
        await peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=SOON_MS)
        assert broker.connections == 2

    run(test)


def test_a_node_that_refuses_is_told_of_and_left_in_peace_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers_module, "_FIRST_PAUSE_S", 30.0)  # three questions take longer on a busy machine

    async def main() -> None:
        lost: list[int] = []
        tried: list[int] = []
        port = free_port()

        def address_of(node_id: int) -> Address:
            tried.append(node_id)
            return Address(HOST, port)

        peers = Peers(1, address_of)
        peers.watch(lambda node_id, purpose: lost.append(node_id))
        for _ in range(3):
            with pytest.raises(CannotConnectError, match="connection refused"):
                await peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=SOON_MS)
        assert lost == [2], "two of the three were told what the first had found"
        assert not await peers.is_listening(2, SOON_MS)
        await peers.close()

    asyncio.run(main())


def test_a_node_that_nobody_knows_cannot_be_asked() -> None:
    async def test(broker: FakeBroker, peers: Peers, lost: list[int]) -> None:
        with pytest.raises(CannotConnectError, match="node 3 is not known"):
            await peers.ask(3, HEARTBEAT, purpose="a", timeout_ms=SOON_MS)
        assert await peers.is_listening(2, SOON_MS)

    run(test)


def test_who_gives_up_before_the_connection_is_refused_leaves_nothing_behind() -> None:
    async def test(broker: FakeBroker, peers: Peers, lost: list[int]) -> None:
        left: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context["message"]))
        broker.on(ApiVersionsRequest, SILENCE)
        asking = asyncio.create_task(peers.ask(2, HEARTBEAT, purpose="a", timeout_ms=40))
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.sleep(0.1)
        gc.collect()
        assert not left

    run(test)
