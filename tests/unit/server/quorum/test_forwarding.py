"""Commands on their way to the controller: as themselves or in an envelope, tried again only if nothing was
done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.wire.fake_broker import HANG_UP, FakeBroker

from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.ports import HOST, free_port
from ottla.model import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import DecodeError
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.security.quota.mutations import Asker
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.forwarding import asker_of, forward, open_envelope, seal_envelope
from ottla.server.quorum.peers import Peers

SOON_MS = 5_000


def asked(test: Callable[[FakeBroker, Peers], Awaitable[None]]) -> None:
    async def main() -> None:
        async with FakeBroker() as broker:
            peers = Peers(1, lambda node_id: Address(HOST, broker.port))
            try:
                await test(broker, peers)
            finally:
                await peers.close()

    asyncio.run(main())


def test_a_clients_command_travels_whole_in_the_version_that_it_chose() -> None:
    async def test(broker: FakeBroker, peers: Peers) -> None:
        def answer(envelope: EnvelopeRequest, _: Any) -> EnvelopeResponse:
            header, request = open_envelope(envelope)
            assert (header.api_version, request.topic_names) == (4, ["t"])
            return seal_envelope(header, DeleteTopicsResponse(responses=[DeletableTopicResult(name="t")]))

        broker.on(EnvelopeRequest, answer)
        response = await forward(peers, 2, DeleteTopicsRequest(topic_names=["t"]), 4, SOON_MS)
        assert [result.name for result in response.responses] == ["t"]

    asked(test)


@pytest.mark.parametrize("asker", [Asker("alice", "shop"), Asker("Zoë, of <Shop>", "")])
def test_the_client_travels_with_its_command(asker: Asker) -> None:
    seen: list[Asker] = []

    async def test(broker: FakeBroker, peers: Peers) -> None:
        def answer(envelope: EnvelopeRequest, _: Any) -> EnvelopeResponse:
            header, _ = open_envelope(envelope)
            seen.append(asker_of(envelope, header))
            return seal_envelope(header, DeleteTopicsResponse())

        broker.on(EnvelopeRequest, answer)
        await forward(peers, 2, DeleteTopicsRequest(topic_names=["t"]), 4, SOON_MS, asker)

    asked(test)
    assert seen == [asker]


def test_a_command_without_a_client_is_nobodys_and_a_garbled_principal_is_refused() -> None:
    header = RequestHeader(ApiKey.CREATE_TOPICS, 7, 0, None)
    for nobody in (None, b""):
        assert asker_of(EnvelopeRequest(request_principal=nobody), header) == Asker("ANONYMOUS", "")
    for garbage in (b"\0", b"\0\1alice", b"\0\0\xff"):
        with pytest.raises(DecodeError):
            asker_of(EnvelopeRequest(request_principal=garbage), header)


def test_what_a_broker_itself_wants_goes_in_the_newest_version() -> None:
    async def test(broker: FakeBroker, peers: Peers) -> None:
        def answer(envelope: EnvelopeRequest, _: Any) -> EnvelopeResponse:
            header, request = open_envelope(envelope)
            names = [topic.name for topic in request.topics]
            results = [CreatableTopicResult(name=f"{name}-{header.api_version}") for name in names]
            return seal_envelope(header, CreateTopicsResponse(topics=results))

        broker.on(EnvelopeRequest, answer)
        request = CreateTopicsRequest([CreatableTopic(name="t")])
        response = await forward(peers, 2, request, None, SOON_MS)
        assert response.topics[0].name == "t-7"

    asked(test)


def test_what_brokers_tell_the_controller_travels_as_itself() -> None:
    async def test(broker: FakeBroker, peers: Peers) -> None:
        broker.on(BrokerHeartbeatRequest, BrokerHeartbeatResponse(is_fenced=False))
        response = await forward(peers, 2, BrokerHeartbeatRequest(broker_id=1), None, SOON_MS)
        assert not response.is_fenced

    asked(test)


@pytest.mark.parametrize("request_type", [BrokerHeartbeatRequest, CreateTopicsRequest])
def test_who_is_not_the_controller_has_done_nothing(request_type: type[Any]) -> None:
    async def test(broker: FakeBroker, peers: Peers) -> None:
        broker.on(BrokerHeartbeatRequest, BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
        broker.on(EnvelopeRequest, EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        with pytest.raises(NotControllerError):
            await forward(peers, 2, request_type(), None, SOON_MS)

    asked(test)


def test_who_cannot_be_reached_has_done_nothing() -> None:
    async def main() -> None:
        port = free_port()
        peers = Peers(1, lambda node_id: Address(HOST, port))
        with pytest.raises(NotControllerError):
            await forward(peers, 2, CreateTopicsRequest(), None, SOON_MS)
        await peers.close()

    asyncio.run(main())


def test_who_goes_away_in_the_middle_may_have_done_it() -> None:
    async def test(broker: FakeBroker, peers: Peers) -> None:
        broker.on(EnvelopeRequest, HANG_UP)
        with pytest.raises(KafkaError, match="may or may not have done it") as refused:
            await forward(peers, 2, CreateTopicsRequest(), None, SOON_MS)
        assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT

    asked(test)


def test_an_envelope_that_cannot_be_opened_is_an_error_in_words() -> None:
    async def test(broker: FakeBroker, peers: Peers) -> None:
        broker.on(EnvelopeRequest, EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
        with pytest.raises(KafkaError, match="could not read"):
            await forward(peers, 2, CreateTopicsRequest(), None, SOON_MS)

    asked(test)


@pytest.mark.parametrize("key", [999, 3, 58, 63])
def test_an_envelope_with_something_that_is_no_clients_command_is_refused(key: int) -> None:
    with pytest.raises(KafkaError, match=f"no API {key}"):
        open_envelope(EnvelopeRequest(request_data=key.to_bytes(2, "big") + bytes(6) + b"\xff\xff\0"))
