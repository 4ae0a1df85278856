"""Callers of the gateway that show a certificate act as its principal, by delegation tokens: GTW-1, GTW-3."""

from __future__ import annotations

import re
import shlex
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.integration.command_line import ottla_here
from tests.integration.gateway_place import GatewayPlace, gateway_place
from tests.integration.grpc_stubs import stubs
from tests.repository import ROOT
from tests.tls_authority import Authority, Issued

import ottla.testing
from ottla import Acl, Operation, Pattern
from ottla.blocking import Admin
from ottla.config import ConfigError
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster import certificate_logins
from ottla.gateway.gateway import Gateway
from ottla.localcluster.waiting import wait_until
from ottla.security.acl.rules import ResourceType
from ottla.testing import EmbeddedBroker

# The gateway's user is no super user: it may create tokens for two users.
USERS = {"admin": "Admin-1", "gateway": "Gateway-2"}
SETTINGS = {
    "delegation.token.secret.key": "The-Secret-Of-Tokens",
    "authorizer.class.name": "acl",
    "super.users": "User:admin",
}
RULES = "RULE:^CN=(.*?),.*$/$1/"
SENT = {"records": [{"value": 1}]}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(users=USERS, settings=SETTINGS) as running:
        running.create_topic("orders")
        for user in ("alice", "bob"):
            owned = Pattern(ResourceType.USER, f"User:{user}")
            running.allow(Acl(owned, "User:gateway", "*", Operation.CREATE_TOKENS))
        orders = Pattern(ResourceType.TOPIC, "orders")
        running.allow(Acl(orders, "User:alice", "*", Operation.ALL))
        running.allow(Acl(Pattern(ResourceType.GROUP, "g"), "User:alice", "*", Operation.ALL))
        yield running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def settings_of(authority: Authority, **given: Any) -> dict[str, Any]:
    own = authority.issue("gateway-server")
    return {
        "certificate_file": str(own.certificate),
        "key_file": str(own.key),
        "client_ca_file": str(authority.ca_file),
        "client_auth": "requested",
        "client_principal_rules": RULES,
        **given,
    }


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker, authority: Authority) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, broker.security("gateway"), **settings_of(authority)) as place:
        yield place


def shows(authority: Authority, issued: Issued | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    if issued is not None:
        context.load_cert_chain(issued.certificate, issued.key)
    return context


def token_owners(broker: EmbeddedBroker) -> list[str]:
    with Admin(broker.bootstrap, security=broker.security("admin")) as admin:
        return sorted(each.owner for each in admin.describe_tokens())


def test_the_clusters_rights_of_the_certificates_user_decide(
    gateway: GatewayPlace, broker: EmbeddedBroker, authority: Authority
) -> None:
    alice, bob = (shows(authority, authority.issue(name)) for name in ("alice", "bob"))
    answer = gateway.call("POST", "/topics/orders", SENT, context=alice)
    assert answer.status == 200, answer.body
    assert answer.json["offsets"][0]["error"] is None
    assert gateway.call("POST", "/topics/orders", SENT, context=bob).status in (403, 404)
    assert gateway.call("POST", "/consumers/g", {"name": "i"}, context=alice).status == 200
    # To others the instance does not exist.
    path = "/consumers/g/instances/i"
    assert gateway.call("GET", f"{path}/assignments", context=bob).error == (404, 40403)
    assert gateway.call("DELETE", path, context=alice).status == 204
    # Schemas, too: nobody may read them here.
    assert gateway.call("GET", "/subjects", context=bob).status in (403, 404, 500, 503)
    assert token_owners(broker) == ["User:alice", "User:bob"]


def test_a_certificate_whose_user_the_gateway_may_not_act_for_is_refused(
    gateway: GatewayPlace, authority: Authority
) -> None:
    carol = shows(authority, authority.issue("carol"))
    answer = gateway.call("GET", "/topics", context=carol)
    assert answer.error == (401, 40101)
    assert "User:carol" in answer.json["message"]
    # Not even as an administrator: the cluster decides who may be acted for.
    admin = shows(authority, authority.issue("admin"))
    assert gateway.call("GET", "/topics", context=admin).error == (401, 40101)


def test_without_a_certificate_a_login_is_needed(gateway: GatewayPlace, authority: Authority) -> None:
    assert gateway.call("GET", "/topics", context=shows(authority, None)).error == (401, 40101)


def test_a_certificate_of_another_authority_is_no_connection(
    gateway: GatewayPlace, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "Another Authority").issue("alice")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        gateway.call("GET", "/topics", context=shows(authority, stranger))


def test_tokens_are_renewed_and_end_with_the_gateway(
    broker: EmbeddedBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[str] = []
    renew = certificate_logins.CertificateLogins._renew

    async def noted(self: Any, held: Any) -> bool:
        renewed.append(held.token.owner)
        return await renew(self, held)

    monkeypatch.setattr(certificate_logins.CertificateLogins, "_renew", noted)
    monkeypatch.setattr(certificate_logins._Held, "is_half_over", True)
    before = token_owners(broker)
    # Idle clients are closed after this; the gateway looks after tokens as often.
    settings = settings_of(authority, client_idle_ms=200)
    with gateway_place(broker.bootstrap, broker.security("gateway"), **settings) as place:
        alice = shows(authority, authority.issue("alice"))
        assert place.call("POST", "/topics/orders", SENT, context=alice).status == 200
        wait_until(lambda: bool(renewed), "the token is renewed")
        assert place.call("POST", "/topics/orders", SENT, context=alice).status == 200
        assert len(token_owners(broker)) == len(before) + 1
    assert token_owners(broker) == before


def test_grpc_asks_for_certificates_where_they_are_required(
    broker: EmbeddedBroker, authority: Authority
) -> None:
    pb, services = stubs()
    settings = settings_of(authority, client_auth="required", grpc_listen="localhost:0")
    with gateway_place(broker.bootstrap, broker.security("gateway"), **settings) as place:
        outcomes = []
        for name in ("alice", "bob"):
            issued = authority.issue(name)
            credentials = grpc.ssl_channel_credentials(
                authority.ca_file.read_bytes(), issued.key.read_bytes(), issued.certificate.read_bytes()
            )
            with grpc.secure_channel(f"localhost:{place.gateway.grpc_port}", credentials) as channel:
                asked = pb.ProduceRequest(topic="orders", records=[pb.Record(value=b"one")])
                try:
                    answer = services.ProducerServiceStub(channel).Produce(asked, timeout=60)
                    outcomes.append(answer.outcomes[0].HasField("error"))
                except grpc.RpcError as error:
                    outcomes.append(error.code())
        assert outcomes[0] is False
        assert outcomes[1] in (True, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ottla.gateway.client.auth": "required"}, "needs ottla.gateway.certificate.file"),
        (
            {"ottla.gateway.client.auth": "requested", "ottla.gateway.certificate.file": "x.pem"},
            "needs ottla.gateway.client.ca.file",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        GatewayConfig.from_properties(given)


def test_a_gateway_without_a_login_of_its_own_asks_for_no_certificates(authority: Authority) -> None:
    settings = GatewayConfig(listen="localhost:0", **settings_of(authority))
    with pytest.raises(ConfigError, match="needs client properties with a login"):
        Gateway("localhost:1", settings=settings)
    rules = GatewayConfig(listen="localhost:0", **settings_of(authority, client_principal_rules="RULE:("))
    with pytest.raises(ConfigError, match=r"client\.principal\.rules cannot be used"):
        Gateway(
            "localhost:1",
            ottla.Security(
                protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="gateway", password="p"
            ),
            rules,
        )


def test_the_commands_on_the_page_are_those_that_it_takes() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
    found = re.search(r"```sh\n(ottla acls add .*?)\n(ottla gateway .*?)```", page, re.DOTALL)
    assert found is not None
    with ottla.testing.broker(
        settings={"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}
    ) as it:
        done = ottla_here(*shlex.split(found[1])[1:], bootstrap=it.bootstrap)
        assert done.stdout == "Added: User:gateway may create_tokens user User:alice.\n"
    words = shlex.split(found[2])
    given = [words[place + 1] for place, each in enumerate(words) if each == "--set"]
    settings = GatewayConfig.from_properties(dict(each.split("=", 1) for each in given))
    assert settings.client_auth == "required"
