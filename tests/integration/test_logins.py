"""Logins on a running broker: who gets in, how the others are refused, and how long a login counts (OPS-5,
WIRE-5).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.integration.login_steps import (
    METADATA,
    PASSWORD_MECHANISMS,
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
from ottla.cli.main import ottla as command
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.sasl.scram import SCRAM_MECHANISMS
from ottla.security.sasl.scram_client import ScramClient
from ottla.security.settings import MECHANISMS as SASL_MECHANISMS
from ottla.testing import EmbeddedBroker
from ottla.wire.connection import Connection


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(users=USERS, settings={"sasl.server.max.receive.size": 10_000}) as running:
        running.create_topic("t")
        yield running


# ---- clients


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("user", USERS)
def test_the_asyncio_client_logs_in(broker: EmbeddedBroker, user: str, mechanism: Any) -> None:
    assert asyncio.run(ask(broker, broker.security(user, mechanism))) == ["t"]


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_the_blocking_clients_log_in(broker: EmbeddedBroker, mechanism: Any) -> None:
    security = broker.security("alice", mechanism)
    with ottla.blocking.Producer(broker.bootstrap, security=security) as producer:
        producer.send("t", b"hello")
    with ottla.blocking.Consumer(
        broker.bootstrap, security=security, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([ottla.TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll(timeout_ms=10_000)][:1] == [b"hello"]
    connection = blocking_connection(broker, security)
    assert connection.ask(METADATA[2]).brokers
    connection.close()
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        blocking_connection(broker, secured("alice", WRONG, mechanism))


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", WRONG), ("mallory", USERS["alice"])])
def test_wrong_password_and_unknown_user_have_the_same_refusal_at_once(
    broker: EmbeddedBroker, user: str, password: str, mechanism: Any
) -> None:
    with pytest.raises(KafkaError) as refused:
        asyncio.run(ask(broker, secured(user, password, mechanism)))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    said = f"refused the login of user '{user}' by {mechanism}: Authentication failed due to invalid credentials."
    assert said in str(refused.value)


@pytest.mark.parametrize("make", [ottla.Producer, ottla.Consumer, ottla.Admin])
def test_every_client_gives_up_at_once_when_it_is_refused(broker: EmbeddedBroker, make: Any) -> None:
    async def use() -> None:
        async with make(broker.bootstrap, security=secured("alice", WRONG)) as client:
            if isinstance(client, ottla.Producer):
                await client.send("t", b"v")
            elif isinstance(client, ottla.Consumer):
                client.subscribe(["t"])
                await client.poll(timeout_ms=60_000)
            else:
                await client.list_topics()

    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        asyncio.run(asyncio.wait_for(use(), 30))


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    with ottla.testing.broker(users=USERS, settings=settings) as strict:
        with pytest.raises(KafkaError, match="it accepts: SCRAM-SHA-256, SCRAM-SHA-512") as refused:
            asyncio.run(ask(strict, strict.security("alice", "PLAIN")))
        assert refused.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert asyncio.run(ask(strict, strict.security("alice", "SCRAM-SHA-512"))) == []


def test_a_login_on_a_listener_without_logins_is_refused_in_words() -> None:
    with ottla.testing.broker() as open_broker:
        with pytest.raises(KafkaError, match="has no logins: connect without SASL"):
            asyncio.run(ask(open_broker, secured("alice", "secret")))
        with Peer(open_broker.port) as peer:
            assert handshake(peer).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert authenticate(peer, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert peer.ask(*METADATA).brokers


def test_brokers_log_in_to_each_other_before_there_is_any_metadata() -> None:
    with ottla.testing.cluster(3, users=USERS) as cluster:
        cluster.create_topic("orders", partitions=3)
        with ottla.blocking.Producer(cluster.bootstrap, security=cluster.security("bob")) as producer:
            producer.send("orders", b"one")
        cluster.kill(cluster.controller_id)
        with ottla.blocking.Producer(cluster.bootstrap, security=cluster.security("alice")) as producer:
            producer.send("orders", b"two")
        assert {record.value for record in cluster.records("orders")} == {b"one", b"two"}


def test_a_user_of_the_cluster_logs_in_until_removed_and_open_connections_go_on(
    broker: EmbeddedBroker,
) -> None:
    password = "Of-The-Cluster-5"

    async def use() -> None:
        async with ottla.Admin(broker.bootstrap, security=broker.security("alice")) as admin:
            added = [ottla.ScramPassword("carol", password, "SCRAM-SHA-512")]
            ottla.succeeded(await admin.alter_users(added))
            with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
                await ask(broker, secured("carol", password, "SCRAM-SHA-256"))
            assert await ask(broker, secured("carol", password, "PLAIN")) == ["t"]
            security = secured("carol", password, "SCRAM-SHA-512")
            async with await Connection.open("127.0.0.1", broker.port, security=security) as connection:
                ottla.succeeded(await admin.alter_users([ottla.ScramRemoval("carol", "SCRAM-SHA-512")]))
                assert (await connection.ask(METADATA[2])).brokers
                with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
                    await ask(broker, security)

    asyncio.run(use())


def test_the_command_line_logs_in_with_a_file_of_client_properties(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers={broker.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-256\nsasl.username=bob\n"
        f"sasl.password={USERS['bob']}\n"
    )
    listed = CliRunner().invoke(command, ["topics", "list", "--config", str(file)])
    assert (listed.exit_code, "t" in listed.output.split()) == (0, True), listed.output
    file.write_text(file.read_text().replace(USERS["bob"], WRONG))
    refused = CliRunner().invoke(command, ["topics", "list", "--config", str(file)])
    assert refused.exit_code != 0
    assert "refused the login of user 'bob'" in refused.output
    assert WRONG not in refused.output


# ---- the frames of a login


def test_before_the_login_only_what_leads_to_it_is_answered(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        assert peer.ask(ApiKey.API_VERSIONS, 2, ApiVersionsRequest()).error_code == 0
        log_in(peer)
        assert peer.ask(*METADATA).brokers
    with Peer(broker.port) as peer:
        peer.send(*METADATA)
        assert peer.is_closed()


def test_requests_behind_the_login_may_be_on_their_way_with_it(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        peer.socket.sendall(
            peer.frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            + peer.frame(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(plain_token("alice")))
            + peer.frame(*METADATA)
        )
        assert peer.receive(ApiKey.SASL_HANDSHAKE, 1)[1].error_code == 0
        assert peer.receive(ApiKey.SASL_AUTHENTICATE, 2)[1].error_code == 0
        assert peer.receive(*METADATA[:2])[1].brokers


def test_after_handshake_0_tokens_travel_without_requests_around_them(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        assert handshake(peer, "PLAIN", version=0).error_code == 0
        token = plain_token("alice")
        peer.socket.sendall(struct.pack(">i", len(token)) + token)
        assert peer.receive_frame() == b""
        assert peer.ask(*METADATA).brokers
    with Peer(broker.port) as peer:
        assert handshake(peer, "SCRAM-SHA-512", version=0).error_code == 0
        client = ScramClient(SCRAM_MECHANISMS["SCRAM-SHA-512"], "bob", USERS["bob"], "nonce")
        token_or_none: bytes | None = client.first()
        while token_or_none is not None:
            peer.socket.sendall(struct.pack(">i", len(token_or_none)) + token_or_none)
            token_or_none = client.respond(peer.receive_frame())
        assert peer.ask(*METADATA).brokers
    with Peer(broker.port) as peer:
        handshake(peer, "PLAIN", version=0)
        peer.socket.sendall(struct.pack(">i", 3) + b"\0a\0")
        assert peer.is_closed()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_a_failure_has_an_answer_and_then_the_end(
    broker: EmbeddedBroker, version: int
) -> None:
    with Peer(broker.port) as peer:
        handshake(peer)
        response = authenticate(peer, b"\0alice\0" + WRONG.encode(), version)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == "Authentication failed due to invalid credentials."
        assert peer.is_closed()


def test_a_login_out_of_order_is_refused_with_its_error(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        assert authenticate(peer, plain_token("alice")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert peer.is_closed()
    with Peer(broker.port) as peer:
        handshake(peer)
        assert handshake(peer).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert peer.is_closed()
    with Peer(broker.port) as peer:
        log_in(peer)
        assert authenticate(peer, plain_token("alice")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert peer.ask(*METADATA).brokers


def test_an_unknown_mechanism_is_answered_with_the_enabled_ones(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        response = handshake(peer, "GSSAPI")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert tuple(response.mechanisms) == PASSWORD_MECHANISMS
        assert peer.is_closed()


HOSTILE = {
    "a frame that is too large": struct.pack(">i", 10_001),
    "a negative size": struct.pack(">i", -1),
    "an empty frame": struct.pack(">i", 0),
    "a byte": struct.pack(">i", 1) + b"\0",
    "an unknown API": struct.pack(">ihhi", 8, 999, 0, 1),
    "a truncated handshake": struct.pack(">ihhihh", 12, ApiKey.SASL_HANDSHAKE, 1, 1, -1, 500),
    "a version that is not served": struct.pack(">ihhih", 10, ApiKey.SASL_AUTHENTICATE, 99, 1, -1),
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "TLS": bytes.fromhex("160301020001000100010001000100010001000100010001"),
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_whatever_else_comes_before_a_login_ends_the_connection(broker: EmbeddedBroker, sent: bytes) -> None:
    with Peer(broker.port) as other:
        log_in(other)
        with Peer(broker.port) as peer:
            peer.socket.sendall(sent)
            assert peer.is_closed()
        assert other.ask(*METADATA).brokers


TOKENS = {
    "PLAIN": [
        b"",
        b"\0",
        b"\0\0\0",
        b"\xff\xfe\0a\0b",
        b"bob\0alice\0" + USERS["alice"].encode(),
        b"a" * 9_000,
    ],
    "SCRAM-SHA-256": [
        b"",
        b"n,,",
        b"p=tls,,n=alice,r=x",
        b"n,,n=alice",
        b"n,a=bob,n=alice,r=x",
        b"\xff" * 50,
    ],
}


@pytest.mark.parametrize(("mechanism", "token"), [(each, token) for each in TOKENS for token in TOKENS[each]])
def test_malformed_tokens_have_the_answer_of_a_wrong_password(
    broker: EmbeddedBroker, mechanism: str, token: bytes
) -> None:
    with Peer(broker.port) as peer:
        handshake(peer, mechanism)
        assert authenticate(peer, token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.is_closed()


def _with_other_nonce(final: bytes) -> bytes:
    return final.replace(b"r=nonce", b"r=nonc3")


def _with_other_proof(final: bytes) -> bytes:
    head, proof = final.rsplit(b"p=", 1)
    return head + b"p=" + (b"A" if proof[:1] != b"A" else b"B") + proof[1:]


def _with_short_proof(final: bytes) -> bytes:
    return final.rsplit(b"p=", 1)[0] + b"p=AAAA"


@pytest.mark.parametrize("tamper", [_with_other_nonce, _with_other_proof, _with_short_proof])
def test_a_tampered_scram_message_is_refused(broker: EmbeddedBroker, tamper: Any) -> None:
    with Peer(broker.port) as peer:
        handshake(peer, "SCRAM-SHA-256")
        client = ScramClient(SCRAM_MECHANISMS["SCRAM-SHA-256"], "alice", USERS["alice"], "nonce")
        final = client.respond(bytes(authenticate(peer, client.first()).auth_bytes))
        assert final is not None
        assert authenticate(peer, tamper(final)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.is_closed()


def test_the_mechanisms_of_the_settings_are_those_that_have_machines() -> None:
    assert set(PASSWORD_MECHANISMS) == set(SASL_MECHANISMS) - {"OAUTHBEARER"}
