"""A broker's life as its controller sees it, told by a quorum that answers what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.server.metadata import eventually

from ottla.config import BrokerConfig
from ottla.config import Listener as ListenerAddress
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from ottla.server.quorum.broker_membership import Identity, Membership
from ottla.server.quorum.quorum import Quorum

IDENTITY = Identity("c", UUID(int=1), (UUID(int=2),), 17, (ListenerAddress("PLAINTEXT", "localhost", 9092),))
NO_CONTROLLER = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "There is no controller.")


class ToldQuorum:
    """Answers with what is next in line, and with the last one from then on."""

    def __init__(self) -> None:
        self.broker_epoch = -1
        self.image = SimpleNamespace(last_offset=30)
        self.registrations: list[Any] = [BrokerRegistrationResponse(broker_epoch=20)]
        self.heartbeats: list[Any] = [BrokerHeartbeatResponse(is_fenced=False)]
        self.heard: list[Any] = []
        self.replays: list[int] = []
        self.answers = 0
        self.tell: Callable[[], None] = lambda: None

    def registered(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch

    def answered(self) -> None:
        self.answers += 1

    def directory_is(self, is_offline: bool) -> None:
        """The quorum is told, too."""

    def watch(self, watcher: Callable[[], None]) -> None:
        self.tell = watcher

    async def submit(self, request: Any, *, timeout_ms: int) -> Any:
        self.heard.append(request)
        line = self.registrations if isinstance(request, BrokerRegistrationRequest) else self.heartbeats
        answer = line.pop(0) if len(line) > 1 else line[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def replayed(self, offset: int) -> None:
        self.replays.append(offset)

    @property
    def beats(self) -> list[BrokerHeartbeatRequest]:
        return [request for request in self.heard if isinstance(request, BrokerHeartbeatRequest)]


def lived(test: Callable[[Membership, ToldQuorum], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        quorum = ToldQuorum()
        names = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.from_properties({"broker.rack": "r1", "ottla.broker.capacity": "3", **names})
        membership = Membership(config, cast(Quorum, quorum), IDENTITY)
        try:
            async with asyncio.timeout(10):
                await test(membership, quorum)
        finally:
            await membership.stop()

    asyncio.run(main())


def test_it_registers_with_all_that_the_cluster_should_know_and_replays_its_registration() -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        await membership.register()
        (request,) = quorum.heard
        assert (request.broker_id, request.cluster_id, request.incarnation_id) == (1, "c", UUID(int=1))
        assert (request.rack, request.previous_broker_epoch, request.log_dirs) == ("r1", 17, [UUID(int=2)])
        assert [(each.name, each.host, each.port) for each in request.listeners] == [
            ("PLAINTEXT", "localhost", 9092)
        ]
        assert [(each.name, each.max_supported_version) for each in request.features] == [
            ("ottla.capacity", 3),
            ("ottla.kept.writes", 0),
            ("transaction.version", 2),
        ]
        assert (quorum.broker_epoch, quorum.replays) == (20, [20])

    lived(test)


def test_it_waits_for_a_controller_and_for_its_own_former_self_to_go() -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        duplicate = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        quorum.registrations[:0] = [NO_CONTROLLER, duplicate]
        await membership.register()
        assert len(quorum.heard) == 3

    lived(test)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "the same ottla.cluster.id"),
        (ErrorCode.UNSUPPORTED_VERSION, "features that this version"),
        (ErrorCode.INVALID_REGISTRATION, "INVALID_REGISTRATION"),
    ],
)
def test_a_cluster_that_does_not_want_it_says_why(code: ErrorCode, words: str) -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        quorum.registrations = [BrokerRegistrationResponse(error_code=code)]
        with pytest.raises(KafkaError, match=words):
            await membership.register()

    lived(test)


def test_it_joins_when_the_controller_lets_it_in() -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        fenced = BrokerHeartbeatResponse(is_fenced=True)
        quorum.heartbeats[:0] = [fenced, NO_CONTROLLER, fenced]
        await membership.register()
        await membership.join()
        assert len(quorum.beats) == 4
        assert quorum.answers == 3  # what leaders take for the sign that they are not cut off
        assert {(beat.broker_epoch, beat.current_metadata_offset) for beat in quorum.beats} == {(20, 30)}

    lived(test, broker_heartbeat_interval_ms="2000")


def test_the_controller_hears_at_once_that_the_directory_is_offline_and_that_it_is_back() -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        await membership.register()
        await membership.join()
        for is_offline in (True, False):
            membership.directory_is(is_offline)
            heard = len(quorum.beats)
            await eventually(lambda heard=heard: len(quorum.beats) > heard, "it beats again")  # type: ignore[misc]
            assert quorum.beats[-1].offline_log_dirs == (list(IDENTITY.directory_ids) if is_offline else [])

    lived(test, broker_heartbeat_interval_ms="2000")


def test_a_new_controller_hears_of_it_at_once() -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        await membership.register()
        await membership.join()
        quorum.tell()
        await eventually(lambda: len(quorum.beats) == 2, "it beats again")

    lived(test, broker_heartbeat_interval_ms="2000")


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH])
def test_a_controller_that_does_not_know_it_is_told_again(code: ErrorCode) -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        await membership.register()
        quorum.registrations = [BrokerRegistrationResponse(broker_epoch=40)]
        quorum.heartbeats[:0] = [BrokerHeartbeatResponse(error_code=code)]
        await membership.join()
        assert quorum.broker_epoch == 40
        assert quorum.heard[2].previous_broker_epoch == 20, "it lost nothing since"
        assert quorum.heard[2].features[1] == Feature("ottla.kept.writes", 0, 1)
        assert quorum.beats[-1].broker_epoch == 40

    lived(test)


def test_it_leaves_when_others_have_taken_over() -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        await membership.register()
        await membership.join()
        quorum.heartbeats = [NO_CONTROLLER, BrokerHeartbeatResponse(is_fenced=False, should_shut_down=True)]
        await membership.leave(5)
        assert [beat.want_shut_down for beat in quorum.beats] == [False, True, True]

    lived(test, broker_heartbeat_interval_ms="2000")


def test_it_leaves_in_any_case(caplog: pytest.LogCaptureFixture) -> None:
    async def test(membership: Membership, quorum: ToldQuorum) -> None:
        await membership.leave(5)
        await membership.register()
        await membership.join()
        quorum.heartbeats = [NO_CONTROLLER]
        await membership.leave(0.05)

    lived(test)
    assert "no other broker took over" in caplog.text
