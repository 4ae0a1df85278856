"""Logins by OAUTHBEARER on a running broker: our clients, sessions that end with their tokens, hostile tokens
(OPS-5, WIRE-5).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from tests.identity_provider import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    IdentityProvider,
    claims_of,
    ec_key,
    identity_provider,
    key_file,
    rsa_key,
    signed,
    unsecured,
)
from tests.integration.login_steps import (
    METADATA,
    ask,
    authenticate,
    blocking_connection,
    handshake,
    sessions_are_later_by,
)
from tests.integration.peer import Peer

import ottla
import ottla.blocking
import ottla.testing
from ottla.cli.main import ottla as command
from ottla.config import BrokerConfig, parse_properties
from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.oauthbearer import OauthBearerClient
from ottla.testing import EmbeddedBroker

OAUTHBEARER: Final = "OAUTHBEARER"


def settings(url: str, **more: object) -> dict[str, object]:
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": 0,
        "connection.failed.authentication.delay.ms": 1,
        "authorizer.class.name": "acl",
        "super.users": f"User:alice;User:{CLIENT_ID}",
        **more,
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running


@pytest.fixture(scope="module")
def broker(provider: IdentityProvider) -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(users={"bob": "secret"}, settings=settings(provider.keys_url)) as running:
        running.create_topic("t")
        yield running


def with_token(token: Any) -> ottla.Security:
    return ottla.Security(protocol="SASL_PLAINTEXT", sasl_mechanism=OAUTHBEARER, token=token)


def log_in(peer: Peer, token: str) -> Any:
    assert handshake(peer, OAUTHBEARER).error_code == 0
    return authenticate(peer, OauthBearerClient(token).first())


async def token_of_coroutine() -> str:
    await asyncio.sleep(0)
    return signed(claims_of(), ec_key(), "ES256")


# ---- our clients


@pytest.mark.parametrize("kind", ["text", "function", "coroutine function"])
def test_our_clients_log_in_with_a_token(broker: EmbeddedBroker, kind: str) -> None:
    # Made here: a token that is made when tests are collected has expired when a long run comes to this one.
    tokens: dict[str, Any] = {
        "text": signed(claims_of()),
        "function": lambda: signed(claims_of()),
        "coroutine function": token_of_coroutine,
    }
    security = with_token(tokens[kind])
    assert asyncio.run(ask(broker, security)) == ["t"]
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


def test_our_clients_get_tokens_by_client_credentials(
    broker: EmbeddedBroker, provider: IdentityProvider
) -> None:
    endpoint = ottla.TokenEndpoint(provider.token_url, CLIENT_ID, CLIENT_SECRET)
    assert asyncio.run(ask(broker, with_token(endpoint))) == ["t"]
    before = provider.requests("/token")
    assert asyncio.run(ask(broker, with_token(endpoint))) == ["t"]
    assert provider.requests("/token") == before


def test_the_command_line_gets_tokens_by_kafkas_properties(
    broker: EmbeddedBroker, provider: IdentityProvider, tmp_path: Path
) -> None:
    file, lines = (
        tmp_path / "client.properties",
        ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER"],
    )
    lines += [
        f"bootstrap.servers={broker.bootstrap}",
        f"sasl.oauthbearer.token.endpoint.url={provider.token_url}",
        f"sasl.oauthbearer.client.credentials.client.id={CLIENT_ID}",
        f"sasl.oauthbearer.client.credentials.client.secret={CLIENT_SECRET}",
    ]
    file.write_text("\n".join(lines))
    listed = CliRunner().invoke(command, ["topics", "list", "--config", str(file)])
    assert (listed.exit_code, "t" in listed.output) == (0, True), listed.output


def test_the_user_of_the_token_is_the_principal(broker: EmbeddedBroker) -> None:
    stranger = with_token(signed(claims_of("mallory")))
    assert asyncio.run(ask(broker, stranger)) == []

    async def create() -> None:
        async with ottla.Admin(broker.bootstrap, security=stranger) as admin:
            ottla.succeeded(await admin.create_topics([ottla.NewTopic("u")]))

    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        asyncio.run(create())


def test_a_refused_token_is_an_error_at_once_that_does_not_repeat_it(broker: EmbeddedBroker) -> None:
    token = signed(claims_of(exp=1))
    with pytest.raises(KafkaError, match="refused the login by OAUTHBEARER") as refused:
        asyncio.run(ask(broker, with_token(token)))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert token not in str(refused.value) + repr(with_token(token))


# ---- sessions


def test_the_session_ends_with_the_token_and_a_new_token_prolongs_it(broker: EmbeddedBroker) -> None:
    now = time.time()
    with Peer(broker.port) as peer:
        reply = log_in(peer, signed(claims_of(exp=now + 100)))
        assert 0 < reply.session_lifetime_ms <= 100_000
        assert peer.ask(*METADATA).brokers
        again = log_in(peer, signed(claims_of(exp=now + 1_000)))
        assert 100_000 < again.session_lifetime_ms <= 1_000_000


def test_a_connection_whose_token_has_expired_is_closed_at_its_next_request(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(broker.port) as peer:
        lifetime_ms = log_in(peer, signed(claims_of())).session_lifetime_ms
        assert lifetime_ms > 0
        sessions_are_later_by(monkeypatch, lifetime_ms)
        peer.send(*METADATA)
        assert peer.is_closed()


def test_a_new_token_for_another_user_is_refused(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        assert log_in(peer, signed(claims_of("alice"))).error_code == 0
        assert log_in(peer, signed(claims_of("bob"))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.is_closed()


def test_our_clients_renew_their_login_with_a_new_token(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.wire.login._RENEWED_AFTER", (0.0, 0.0))
    asked: list[float] = []

    def token() -> str:
        asked.append(time.time())
        return signed(claims_of())

    async def use() -> None:
        async with ottla.Admin(broker.bootstrap, security=with_token(token)) as admin:
            await admin.list_topics()
            opened, end = len(asked), time.monotonic() + 30
            while len(asked) == opened and time.monotonic() < end:
                assert [topic.name for topic in await admin.list_topics()] == ["t"]
            assert len(asked) > opened

    asyncio.run(use())


# ---- hostile input

NOT_SIGNED_BY_US = rsa_key("stranger")
HOSTILE = {
    "alg none": unsecured(claims_of()),
    "alg none with a key id": unsecured(claims_of(), "none", "AAAA", kid="rsa-1"),
    "HMAC": unsecured(claims_of(), "HS256", "AAAA", kid="rsa-1"),
    "another key": signed(claims_of(), NOT_SIGNED_BY_US, kid="rsa-1"),
    "an unknown key": signed(claims_of(), NOT_SIGNED_BY_US),
    "a key of its own": signed(
        claims_of(), NOT_SIGNED_BY_US, kid="rsa-1", jwk=NOT_SIGNED_BY_US.as_dict(private=False)
    ),
    "expired": signed(claims_of(exp=int(time.time()) - 1)),
    "not yet valid": signed(claims_of(nbf=int(time.time()) + 1000)),
    "another audience": signed(claims_of(aud="shop")),
    "another issuer": signed(claims_of(iss="https://evil.test")),
    "no user": signed(claims_of(sub=None)),
    "no end": signed(claims_of(exp=None)),
    "huge": signed(claims_of(pad="x" * 100_000)),
    "bad base64": "a.a.a",
    "bad JSON": "e30x.e30x.e30x",
    "deep JSON": signed(b'{"a":' * 9000),
}


@pytest.mark.parametrize("token", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_token_is_refused_like_every_other_and_stands_in_no_log(
    broker: EmbeddedBroker, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Peer(broker.port) as peer:
        refusal = log_in(peer, token)
        assert (refusal.error_code, bytes(refusal.auth_bytes)) == (0, b'{"status":"invalid_token"}')
        ended = authenticate(peer, b"\x01")
        assert ended.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert ended.error_message == "Authentication failed due to invalid credentials."
        assert peer.is_closed()
    assert token not in caplog.text


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\xff" * 100,
        b"n,,\x01auth=Bearer a.b.c\x01\x00=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01__class__=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=x\x01\x01",
        b"n,,\x01" + b"a=b\x01" * 20_000 + b"\x01",
    ],
)
def test_a_hostile_message_is_refused(broker: EmbeddedBroker, message: bytes) -> None:
    with Peer(broker.port) as peer:
        handshake(peer, OAUTHBEARER)
        assert authenticate(peer, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.is_closed()


def test_nothing_is_answered_between_a_refusal_and_its_end(broker: EmbeddedBroker) -> None:
    with Peer(broker.port) as peer:
        log_in(peer, unsecured(claims_of()))
        peer.send(*METADATA)
        assert peer.is_closed()
    with Peer(broker.port) as peer:
        log_in(peer, unsecured(claims_of()))
        right = OauthBearerClient(signed(claims_of())).first()
        assert authenticate(peer, right).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# ---- settings


def test_keys_may_stand_in_a_file(tmp_path: Path) -> None:
    given = settings(key_file(tmp_path), **{"ottla.sasl.oauthbearer.required.scopes": "kafka"})
    with ottla.testing.broker(users={"bob": "secret"}, settings=given) as running:
        assert asyncio.run(ask(running, with_token(signed(claims_of(scope="a kafka"))))) == []
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
            asyncio.run(ask(running, with_token(signed(claims_of(scope="a")))))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://id.test"}, "must be an https, http or file URL"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
        ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "must be one of: PLAIN"),
    ],
)
def test_settings_that_cannot_work_are_refused(changed: dict[str, object], said: str) -> None:
    given = {**settings("file:///keys"), **changed}
    with pytest.raises(ValueError, match=said):
        ottla.testing.broker(users={"bob": "secret"}, settings=given).start()


def test_oauthbearer_without_keys_is_refused() -> None:
    given = settings("file:///keys")
    del given["sasl.oauthbearer.jwks.endpoint.url"]
    with pytest.raises(ValueError, match=r"set sasl\.oauthbearer\.jwks\.endpoint\.url"):
        ottla.testing.broker(users={"bob": "secret"}, settings=given).start()


def test_what_the_page_says_can_be_used(
    broker: EmbeddedBroker, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    section = re.split(r"^#+ ", page.split("### Tokens of an identity provider", 1)[1], flags=re.MULTILINE)[0]
    of_broker, of_client = (
        parse_properties(block) for block in re.findall(r"```properties\n(.*?)```", section, re.DOTALL)
    )
    assert BrokerConfig().overridden(of_broker).oauth.expected_audience == ("kafka",)
    monkeypatch.setenv("CLIENT_SECRET", CLIENT_SECRET)
    (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    for wrong, right in (
        ("https://id.example.org/token", provider.token_url),
        ("SASL_SSL", "SASL_PLAINTEXT"),
    ):
        program, of_client = (
            program.replace(wrong, right),
            {
                name: value.replace(wrong, right).replace("...", CLIENT_SECRET)
                for name, value in of_client.items()
            },
        )
    exec(compile(program, "security.md", "exec"), names)
    assert asyncio.run(ask(broker, names["security"])) == ["t"]
    assert asyncio.run(ask(broker, ottla.Security.from_properties(of_client))) == ["t"]
