"""Users of the cluster log in to the console and see what they may see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.integration.console_caller import ConsoleCaller
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla
import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.security.acl.rules import AclFilter, ResourceType
from ottla.testing.embedded_broker import EmbeddedBroker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
USERS = {"alice": "secret-a", "bob": "secret-b", "root": "secret-r"}
ALLOWED = ottla.Acl(ottla.Pattern(ResourceType.TOPIC, "guarded"), "User:alice", "*", ottla.Operation.ALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings=SETTINGS, users=USERS) as started:
        started.create_topic("guarded")
        started.create_topic("secret")
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(
        broker.bootstrap, requires_login=True, login_mechanism="SCRAM-SHA-256", console="write"
    ) as place:
        yield place


async def _changed(broker: EmbeddedBroker, *, allowed: bool) -> None:
    async with ottla.Admin(broker.bootstrap, security=broker.security("root")) as admin:
        if allowed:
            ottla.succeeded(await admin.create_acls([ALLOWED]))
        else:
            ottla.succeeded(await admin.delete_acls([AclFilter(principal="User:alice")]))


def test_a_login_becomes_a_cookie_that_no_script_and_no_other_site_can_use(gateway: GatewayPlace) -> None:
    console = ConsoleCaller(gateway)
    facts = console.get("/session")
    assert (facts["user"], facts["requires_login"], facts["takes_logins"]) == (None, True, True)
    refused = console.ask("GET", "/topics")
    assert (refused.status, "www-authenticate" in refused.headers) == (401, False)
    reply = console.log_in("root", "secret-r")
    assert reply.json == {"user": "root"}
    assert "secret" not in str(reply.headers)
    for word in ("HttpOnly", "SameSite=Strict", "Path=/console"):
        assert word in reply.headers["set-cookie"]
    assert console.get("/session")["user"] == "root"
    assert {each["name"] for each in console.get("/topics")["topics"]} >= {"guarded", "secret"}


def test_a_wrong_login_is_refused_in_words(gateway: GatewayPlace) -> None:
    console = ConsoleCaller(gateway)
    for given in ({"username": "root", "password": "guess"}, {"username": "nobody", "password": "x"}):
        reply = console.ask("POST", "/session", given)
        assert (reply.status, "www-authenticate" in reply.headers) == (401, False)
        assert reply.json["message"]
    assert console.ask("POST", "/session", {"username": "root"}).status == 422
    forged = gateway.call("POST", "/console/api/session", USERS, content_type="application/json")
    assert forged.status == 403


def test_each_user_sees_and_does_what_the_cluster_allows(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    asyncio.run(_changed(broker, allowed=True))
    alice, bob = ConsoleCaller(gateway), ConsoleCaller(gateway)
    assert alice.log_in("alice", "secret-a").status == bob.log_in("bob", "secret-b").status == 200
    wait_until(lambda: alice.ask("GET", "/topics").json["total"] == 1, "alice sees her topic")
    assert alice.act("send-record", topic="guarded", value={"n": 1}).status == 200
    assert alice.get("/topics/guarded/records")["records"][0]["value"] == {"n": 1}
    assert alice.ask("GET", "/topics/secret/records").status in (403, 404)
    assert bob.get("/topics")["topics"] == []
    assert bob.ask("GET", "/topics/guarded").status in (403, 404)
    assert bob.act("create-topic", topic="mine").status == 403
    assert bob.get("/health")["is_healthy"] is True  # as far as he can see
    # A right that is taken away is gone at the next request.
    asyncio.run(_changed(broker, allowed=False))
    wait_until(lambda: alice.ask("GET", "/topics").json["total"] == 0, "alice sees nothing any more")
    assert alice.ask("GET", "/topics/guarded/records").status in (403, 404)


def test_whoever_logs_out_is_out(gateway: GatewayPlace) -> None:
    console = ConsoleCaller(gateway)
    console.log_in("root", "secret-r")
    reply = console.ask("DELETE", "/session")
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert console.ask("GET", "/topics").status == 401


def test_a_session_that_nobody_uses_ends(broker: EmbeddedBroker) -> None:
    with gateway_place(
        broker.bootstrap, requires_login=True, login_mechanism="SCRAM-SHA-256", console_idle_ms=1
    ) as place:
        console = ConsoleCaller(place)
        assert console.log_in("root", "secret-r").status == 200
        wait_until(lambda: console.ask("GET", "/session").status == 401, "the session ends")
        assert "log in again" in console.ask("GET", "/session").json["message"]
