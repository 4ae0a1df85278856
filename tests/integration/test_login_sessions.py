"""How long a login counts, and what becomes of many failed ones, on a running broker (OPS-5, WIRE-5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.integration.login_steps import (
    METADATA,
    USERS,
    WRONG,
    ask,
    authenticate,
    blocking_connection,
    handshake,
    log_in,
    plain_token,
    secured,
)
from tests.integration.peer import Peer

import ottla
import ottla.blocking
import ottla.testing
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.waiting import wait_until
from ottla.testing import EmbeddedBroker
from ottla.wire.connection import Connection

# Long enough for a client on a busy machine to use its session, short enough for a test to see its end.
LIFETIME_MS = 2_500


# ---- sessions


@pytest.fixture(scope="module")
def short_lived() -> Iterator[EmbeddedBroker]:
    """A broker whose logins count for a moment."""
    with ottla.testing.broker(users=USERS, settings={"connections.max.reauth.ms": LIFETIME_MS}) as running:
        running.create_topic("t")
        yield running


def expired(broker: EmbeddedBroker) -> None:
    """Wait until the sessions of now have expired, by the broker's clock."""
    now = broker.look(lambda _: asyncio.get_running_loop().time())
    end = now + LIFETIME_MS / 1000
    wait_until(lambda: broker.look(lambda _: asyncio.get_running_loop().time()) > end, "the sessions expire")


def test_a_session_tells_its_lifetime_and_ends_at_the_next_request_after_it(
    short_lived: EmbeddedBroker,
) -> None:
    with Peer(short_lived.port) as peer:
        assert log_in(peer, version=1).session_lifetime_ms == LIFETIME_MS
        expired(short_lived)
        peer.send(*METADATA)
        assert peer.is_closed()


def test_an_expired_session_may_log_in_again_and_go_on(short_lived: EmbeddedBroker) -> None:
    with Peer(short_lived.port) as peer:
        log_in(peer)
        assert peer.ask(*METADATA).brokers
        expired(short_lived)
        log_in(peer)
        assert peer.ask(*METADATA).brokers


def test_a_repeated_login_keeps_mechanism_and_user(short_lived: EmbeddedBroker) -> None:
    with Peer(short_lived.port) as peer:
        log_in(peer)
        handshake(peer)
        assert authenticate(peer, plain_token("bob")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.is_closed()
    with Peer(short_lived.port) as peer:
        log_in(peer)
        assert handshake(peer, "SCRAM-SHA-256").error_code == 0
        assert authenticate(peer, b"n,,n=alice,r=x").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.is_closed()


def test_a_connection_renews_its_login_and_loses_no_request(short_lived: EmbeddedBroker) -> None:
    async def use() -> None:
        security = short_lived.security("alice")
        async with await Connection.open("127.0.0.1", short_lived.port, security=security) as connection:
            for _ in range(2):
                answers = await asyncio.gather(*(connection.ask(METADATA[2]) for _ in range(20)))
                assert all(answer.brokers for answer in answers)
                await asyncio.to_thread(expired, short_lived)
            assert connection.is_open

    asyncio.run(use())


def test_a_blocking_connection_renews_its_login(short_lived: EmbeddedBroker) -> None:
    connection = blocking_connection(short_lived, short_lived.security("alice"))
    first = connection.ask(METADATA[2])
    host = first.brokers[0].host
    expired(short_lived)
    connection.begin(METADATA[2])
    assert first.brokers[0].host == host
    assert connection.finish().brokers
    connection.close()


def test_a_login_that_does_not_end_is_ended() -> None:
    settings = {"ottla.sasl.login.timeout.ms": 2_000}
    with ottla.testing.broker(users=USERS, settings=settings) as hasty, ExitStack() as peers:
        quick, idle = (peers.enter_context(Peer(hasty.port)) for _ in range(2))
        log_in(quick)
        assert idle.is_closed()
        slow = peers.enter_context(Peer(hasty.port))
        handshake(slow)
        assert slow.is_closed()
        assert quick.ask(*METADATA).brokers


def test_there_is_a_limit_of_clients_that_have_not_logged_in() -> None:
    settings = {"ottla.sasl.max.unauthenticated.connections.per.ip": 3}
    with ottla.testing.broker(users=USERS, settings=settings) as narrow, ExitStack() as open_peers:
        known = open_peers.enter_context(Peer(narrow.port))
        log_in(known)
        strangers = [open_peers.enter_context(Peer(narrow.port)) for _ in range(3)]
        for stranger in strangers:
            handshake(stranger)
        with Peer(narrow.port) as one_more:
            assert one_more.is_closed()
        with Peer(narrow.port, source="127.0.0.2") as from_elsewhere:
            log_in(from_elsewhere)
        for stranger in strangers:
            assert authenticate(stranger, plain_token("alice")).error_code == 0
        with Peer(narrow.port) as later:
            log_in(later)


# ---- failures, many of them


def test_an_address_with_too_many_failures_is_refused_without_a_look() -> None:
    settings = {
        "ottla.sasl.max.failed.logins.per.minute": 5,
        "connection.failed.authentication.delay.ms": 0,
    }
    with ottla.testing.broker(users=USERS, settings=settings) as guarded:
        for _ in range(5):
            with Peer(guarded.port, source="127.0.0.9") as peer:
                handshake(peer)
                assert authenticate(peer, b"\0alice\0" + WRONG.encode()).error_code == 58
        with Peer(guarded.port, source="127.0.0.9") as peer:
            handshake(peer)
            assert authenticate(peer, plain_token("alice")).error_code == 58
        with Peer(guarded.port) as elsewhere:
            log_in(elsewhere)


def test_thousands_of_failures_are_few_lines_and_tell_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings = {
        "ottla.sasl.max.failed.logins.per.minute": 0,
        "connection.failed.authentication.delay.ms": 0,
    }
    with ottla.testing.broker(users=USERS, settings=settings) as stormy:
        began = stormy.look(lambda _: asyncio.get_running_loop().time())
        with Peer(stormy.port) as known:
            log_in(known)
            for number in range(2_000):
                with Peer(stormy.port) as peer:
                    handshake(peer, "SCRAM-SHA-256")
                    if number % 2:
                        peer.send(*METADATA)
                    else:
                        authenticate(peer, b"n,,n=alice,r=nonce")
                        assert authenticate(peer, b"c=biws,r=nonce,p=AAAA").error_code == 58
            assert known.ask(*METADATA).brokers
        elapsed_s = stormy.look(lambda _: asyncio.get_running_loop().time()) - began
        with pytest.raises(KafkaError) as refused:
            asyncio.run(ask(stormy, secured("alice", WRONG, "PLAIN")))
        assert asyncio.run(ask(stormy, stormy.security("bob", "PLAIN"))) == []
        shown = f"{refused.value!r} {refused.value} {stormy.security('alice')!r} {stormy.security('bob')}"
        lines = [each for each in caplog.messages if "refusing a login" in each]
        assert 0 < len(lines) <= elapsed_s + 3
        assert any("more since the last such line" in line for line in lines) or elapsed_s < 2
        everything = shown + "\n" + caplog.text
    for secret in (*USERS.values(), WRONG):
        assert secret not in everything
        assert repr(secret)[1:-1] not in everything
