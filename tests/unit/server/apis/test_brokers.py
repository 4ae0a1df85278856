"""Requests of brokers to a node that is the controller, and to one that is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.server.metadata import creation, join, running

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode
from ottla.protocol.frame import RequestHeader, write_request
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.partitions import AlterPartitionRequest
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.server.apis.brokers import decide, heartbeat, register
from ottla.server.apis.quorum import envelope
from ottla.server.gate.session import Session
from ottla.server.quorum.quorum import Quorum


class Duties:
    """Remembers what it was told, and refuses whom the test wants refused."""

    def __init__(self) -> None:
        self.heard_of: list[tuple[int, object]] = []
        self.gone: list[tuple[int, object]] = []
        self.refusal: BrokerRegistrationResponse | None = None

    def heard(self, request: BrokerHeartbeatRequest, connection: object) -> None:
        self.heard_of.append((request.broker_id, connection))

    def disconnected(self, broker_id: int, connection: object) -> None:
        self.gone.append((broker_id, connection))

    def registration_refusal(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse | None:
        return self.refusal


def context(quorum: Quorum, duties: Duties | None = None) -> Any:
    services = SimpleNamespace(quorum=quorum, duties=duties or Duties(), rights=None, config=BrokerConfig())
    return SimpleNamespace(services=services, session=Session("PLAINTEXT", "127.0.0.1", 1), version=0)


def test_a_heartbeat_is_heard_and_so_is_the_end_of_its_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            await join(node.quorum)
            duties = Duties()
            asking = context(node.quorum, duties)
            epoch = node.quorum.image.brokers[1].epoch
            for _ in range(2):
                answer = await heartbeat(asking, BrokerHeartbeatRequest(1, epoch, epoch + 9))
                assert (answer.error_code, answer.is_fenced) == (0, False)
            assert duties.heard_of == [(1, asking.session)] * 2
            asking.session.close()
            assert duties.gone == [(1, asking.session)]

    asyncio.run(main())


def test_who_has_the_id_of_a_living_broker_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            await join(node.quorum)
            duties = Duties()
            duties.refusal = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
            answer = await register(context(node.quorum, duties), BrokerRegistrationRequest(broker_id=1))
            assert answer is duties.refusal

    asyncio.run(main())


@pytest.mark.parametrize(
    "request_type",
    [AlterPartitionRequest, AllocateProducerIdsRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest],
)
def test_who_is_not_the_controller_says_so(tmp_path: Path, request_type: type[Any]) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            await join(node.quorum)
            node.quorum.led_by(None, 2)
            answer = await decide(context(node.quorum), request_type())
            assert answer.error_code == ErrorCode.NOT_CONTROLLER

    asyncio.run(main())


def test_an_envelope_is_opened_only_by_the_controller(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            await join(node.quorum)
            garbage = await envelope(context(node.quorum), EnvelopeRequest(request_data=b"\0\0"))
            assert garbage.error_code == ErrorCode.INVALID_REQUEST
            unknown = b"\x03\xe7\x00\x00\x00\x00\x00\x00\xff\xff"
            refused = await envelope(context(node.quorum), EnvelopeRequest(request_data=unknown))
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
            node.quorum.led_by(None, 2)
            frame = bytearray()
            write_request(RequestHeader(19, 7, 1, "broker-2"), creation("t"), frame)
            late = await envelope(context(node.quorum), EnvelopeRequest(request_data=bytes(frame[4:])))
            assert late.error_code == ErrorCode.NOT_CONTROLLER

    asyncio.run(main())
