"""Apache Kafka's own tool for delegation tokens, unmodified, and Kafka's Java client logged in with a token and by
OAUTHBEARER (OPS-5).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.apache.kafka import fetch, run_tool
from bench.apache.maven import CannotFetchError
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider

import ottla.testing
from ottla.blocking import Admin
from ottla.testing import EmbeddedBroker

USERS = {"alice": "Alice-2", "bob": "Bob-3"}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running


@pytest.fixture(scope="module")
def secured(provider: IdentityProvider) -> Iterator[EmbeddedBroker]:
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    settings = {
        "delegation.token.secret.key": "The-Secret",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
    }
    with ottla.testing.broker(users=USERS, settings=settings) as running:
        running.create_topic("orders")
        yield running


def client_file(directory: Path, mechanism: str, jaas: str, *lines: str) -> str:
    file = directory / "client.properties"
    known = ("security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}", f"sasl.jaas.config={jaas};")
    file.write_text("\n".join((*known, *lines)))
    return str(file)


def tool(broker: EmbeddedBroker, name: str, config: str, *arguments: str) -> str:
    result = run_tool(name, "--bootstrap-server", broker.bootstrap, "--command-config", config, *arguments)
    assert result.status == 0, result.everything
    return result.stdout


def test_kafka_delegation_tokens_creates_describes_renews_and_expires(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    alice = client_file(tmp_path, "SCRAM-SHA-512", f'{_SCRAM} username="alice" password="Alice-2"')
    period = ("--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    created = tool(secured, "delegation-tokens", alice, "--create", *period)
    with Admin(secured.bootstrap, security=secured.security("alice")) as admin:
        (token,) = admin.describe_tokens()
        assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
        assert token.token_id in created
        assert token.password in created
        described = tool(secured, "delegation-tokens", alice, "--describe", "--owner-principal", "User:alice")
        assert token.token_id in described
        renew = ("--renew", "--renew-time-period", "3600000", "--hmac", token.password)
        assert "Completed renew operation" in tool(secured, "delegation-tokens", alice, *renew)
        (renewed,) = admin.describe_tokens()
        assert renewed.expires_ms < token.expires_ms

        # Kafka's Java client logs in with the token.
        jaas = f'{_SCRAM} username="{token.token_id}" password="{token.password}" tokenauth="true"'
        handed_on = client_file(tmp_path, "SCRAM-SHA-256", jaas)
        assert "orders" in tool(secured, "topics", handed_on, "--list")

        alice = client_file(tmp_path, "SCRAM-SHA-512", f'{_SCRAM} username="alice" password="Alice-2"')
        expire = ("--expire", "--expiry-time-period", "-1", "--hmac", token.password)
        assert "Completed expire operation" in tool(secured, "delegation-tokens", alice, *expire)
        assert admin.describe_tokens() == []


def test_the_java_client_logs_in_by_client_credentials(
    secured: EmbeddedBroker, provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Kafka's client asks no endpoint that its process was not allowed to.
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.token_url}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    config = client_file(
        tmp_path,
        "OAUTHBEARER",
        f"{_OAUTH}.OAuthBearerLoginModule required",
        f"sasl.oauthbearer.token.endpoint.url={provider.token_url}",
        f"sasl.oauthbearer.client.credentials.client.id={CLIENT_ID}",
        f"sasl.oauthbearer.client.credentials.client.secret={CLIENT_SECRET}",
        f"sasl.login.callback.handler.class={_OAUTH}.OAuthBearerLoginCallbackHandler",
    )
    assert "orders" in tool(secured, "topics", config, "--list")
    assert provider.requests("/token") == 1
