"""Delegation tokens on running brokers: logins, rights, expiry, the command line (OPS-5, CTL-4)."""

from __future__ import annotations

import ast
import asyncio
import itertools
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
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
from ottla import Acl, AclFilter, DelegationToken, Operation, Pattern, PatternType
from ottla.cli.main import ottla as command
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import SIZE_BYTES, RequestHeader, write_request
from ottla.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.security.acl.checks import CHECKS, Right
from ottla.security.acl.rules import ResourceType
from ottla.security.principal import Principal
from ottla.security.principal_data import written_principal
from ottla.security.sasl.scram import SCRAM_MECHANISMS
from ottla.security.sasl.scram_client import ScramClient
from ottla.testing import EmbeddedBroker

USERS = {"admin": "Admin-1", "alice": "Alice-2", "bob": "Bob-3", "carol": "Carol-4"}
SECRET = "The-Secret-Of-Tokens"
SETTINGS = {
    "delegation.token.secret.key": SECRET,
    "authorizer.class.name": "acl",
    "super.users": "User:admin",
    "connection.failed.authentication.delay.ms": 1,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(users=USERS, settings=SETTINGS) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def admins(broker: EmbeddedBroker) -> Iterator[dict[str, ottla.blocking.Admin]]:
    """An administrator's client of each user; afterwards there are no tokens and no rights."""
    opened = {user: ottla.blocking.Admin(broker.bootstrap, security=broker.security(user)) for user in USERS}
    for client in opened.values():
        client.__enter__()
    try:
        yield opened
    finally:
        opened["admin"].delete_acls([AclFilter()])
        for token in opened["admin"].describe_tokens():
            opened[token.owner.removeprefix("User:")].expire_token(token)
        for client in opened.values():
            client.close()


def of_token(
    token: DelegationToken, password: str | None = None, mechanism: Any = "SCRAM-SHA-256"
) -> ottla.Security:
    return ottla.Security(
        protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        username=token.token_id,
        password=token.password if password is None else password,
        is_delegation_token=True,
    )


# ---- logins


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_clients_log_in_with_a_token_as_its_owner(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin], mechanism: str
) -> None:
    security = of_token(admins["admin"].create_token(), mechanism=mechanism)
    assert asyncio.run(ask(broker, security)) == ["t"]
    with ottla.blocking.Producer(broker.bootstrap, security=security) as producer:
        producer.send("t", b"hello")
    connection = blocking_connection(broker, security)
    assert connection.ask(METADATA[2]).brokers
    connection.close()
    of_alice = of_token(admins["alice"].create_token(), mechanism=mechanism)
    assert asyncio.run(ask(broker, of_alice)) == []


def test_a_token_does_not_log_in_with_another_password_nor_without_saying_so(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin]
) -> None:
    token = admins["alice"].create_token()
    wrong = b64encode(b"wrong").decode()
    plain = ottla.Security(
        protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        username=token.token_id,
        password=token.password,
    )
    as_user = ottla.Security(
        protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        username="alice",
        password=USERS["alice"],
        is_delegation_token=True,
    )
    for security in (of_token(token, wrong), of_token(token, USERS["alice"]), plain, as_user):
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED") as refused:
            asyncio.run(ask(broker, security))
        assert token.password not in str(refused.value) + repr(security) + repr(token)


def test_a_session_of_a_token_ends_when_the_token_expires(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = admins["alice"].create_token(max_lifetime_ms=3_600_000)
    with Peer(broker.port) as peer:
        handshake(peer, "SCRAM-SHA-256")
        client = ScramClient(
            SCRAM_MECHANISMS["SCRAM-SHA-256"],
            token.token_id,
            token.password,
            "nonce",
            extensions=",tokenauth=true",
        )
        final = client.respond(bytes(authenticate(peer, client.first()).auth_bytes))
        assert final is not None
        reply = authenticate(peer, final)
        assert 0 < reply.session_lifetime_ms <= 3_600_000
        assert peer.ask(*METADATA).brokers
        sessions_are_later_by(monkeypatch, reply.session_lifetime_ms)
        peer.send(*METADATA)
        assert peer.is_closed()


def test_an_expired_token_logs_nobody_in(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin]
) -> None:
    token = admins["alice"].create_token(max_lifetime_ms=1)
    wait_until(lambda: _is_refused(broker, token), "the token expires")


def _is_refused(broker: EmbeddedBroker, token: DelegationToken) -> bool:
    try:
        asyncio.run(ask(broker, of_token(token)))
    except KafkaError as error:
        return error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    return False


def test_an_ended_token_logs_nobody_in(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin]
) -> None:
    token = admins["alice"].create_token()
    assert not _is_refused(broker, token)
    assert admins["alice"].expire_token(token) <= token.expires_ms
    assert _is_refused(broker, token)
    with pytest.raises(KafkaError, match="DELEGATION_TOKEN_NOT_FOUND"):
        admins["alice"].renew_token(token.hmac)


def test_who_logged_in_with_a_token_cannot_have_tokens(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin]
) -> None:
    token = admins["admin"].create_token()
    with ottla.blocking.Admin(broker.bootstrap, security=of_token(token)) as handed_on:
        for call in (
            handed_on.create_token,
            handed_on.describe_tokens,
            lambda: handed_on.renew_token(token),
            lambda: handed_on.expire_token(token),
        ):
            with pytest.raises(KafkaError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
                call()


def test_who_does_not_log_in_cannot_have_tokens_and_without_a_secret_there_are_none() -> None:
    asked = [
        (ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenRequest()),
        (ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest()),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest()),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest()),
    ]
    with (
        ottla.testing.broker(settings={"delegation.token.secret.key": SECRET}) as open_broker,
        Peer(open_broker.port) as peer,
    ):
        for api, request in asked:
            for version in (1, 2):
                refused = peer.ask(api, version, request).error_code
                assert refused == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with (
        ottla.testing.broker(users=USERS) as without_secret,
        ottla.blocking.Admin(without_secret.bootstrap, security=without_secret.security("alice")) as admin,
    ):
        for call in (
            admin.create_token,
            admin.describe_tokens,
            lambda: admin.renew_token(b"x"),
            lambda: admin.expire_token(b"x"),
        ):
            with pytest.raises(KafkaError, match="DELEGATION_TOKEN_AUTH_DISABLED"):
                call()


# ---- whose token


def test_owners_and_renewers_change_a_token_and_nobody_else(admins: dict[str, ottla.blocking.Admin]) -> None:
    token = admins["alice"].create_token(renewers=["bob"], max_lifetime_ms=7_200_000)
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
    assert admins["bob"].renew_token(token, period_ms=3_600_000) < token.expires_ms
    assert admins["alice"].expire_token(token, after_ms=1_800_000) < token.expires_ms
    (seen,) = admins["bob"].describe_tokens()
    assert (seen.token_id, seen.hmac, seen.renewers) == (token.token_id, token.hmac, ("User:bob",))
    for call in (admins["carol"].renew_token, admins["carol"].expire_token):
        with pytest.raises(KafkaError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
            call(token)
    assert admins["carol"].describe_tokens() == []
    assert admins["admin"].describe_tokens(["User:carol"]) == []
    assert len(admins["admin"].describe_tokens(["alice", "carol"])) == 1


# ---- rights

TOKEN_RIGHTS = [
    Right(Operation.CREATE_TOKENS, ResourceType.USER),
    Right(Operation.DESCRIBE_TOKENS, ResourceType.USER),
    Right(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
]


def test_the_table_has_these_rights_for_tokens() -> None:
    apis = [api for api in CHECKS if api.name.endswith("_DELEGATION_TOKEN")]
    assert {right for api in apis for check in CHECKS[api] for right in check.rights} == set(TOKEN_RIGHTS)


def test_every_set_of_rights_opens_what_the_table_says(admins: dict[str, ottla.blocking.Admin]) -> None:
    admin, carol = admins["admin"], admins["carol"]
    token = admins["alice"].create_token()
    for number in range(len(TOKEN_RIGHTS) + 1):
        for rights in itertools.combinations(TOKEN_RIGHTS, number):
            admin.delete_acls([AclFilter()])
            ottla.succeeded(admin.create_acls([_acl(right, token) for right in rights]))
            is_creator = TOKEN_RIGHTS[0] in rights
            is_reader = bool({*TOKEN_RIGHTS[1:]} & {*rights})
            assert _creates(carol) is is_creator, rights
            seen = [each.token_id for each in carol.describe_tokens(["alice"])]
            assert (token.token_id in seen) is is_reader, rights


def _acl(right: Right, token: DelegationToken) -> Acl:
    name = "User:alice" if right.resource_type is ResourceType.USER else token.token_id
    return Acl(Pattern(right.resource_type, name, PatternType.LITERAL), "User:carol", "*", right.operation)


def _creates(carol: ottla.blocking.Admin) -> bool:
    """Whether carol may make tokens of alice's; of her own she may, always, and of bob's never."""
    assert carol.create_token().owner == "User:carol"
    with pytest.raises(KafkaError, match="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
        carol.create_token(owner="bob")
    try:
        made = carol.create_token(owner="alice")
    except KafkaError as error:
        if error.code is not ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED:
            raise
        return False
    assert (made.owner, made.requester) == ("User:alice", "User:carol")
    return True


# ---- in the metadata


def test_tokens_outlive_restarts_and_expired_ones_are_removed(tmp_path: Path) -> None:
    settings = {**SETTINGS, "delegation.token.expiry.check.interval.ms": 50}
    with ottla.testing.broker(tmp_path / "data", users=USERS, settings=settings) as running:
        with ottla.blocking.Admin(running.bootstrap, security=running.security("alice")) as admin:
            kept = admin.create_token()
            admin.create_token(max_lifetime_ms=1)
            wait_until(lambda: len(admin.describe_tokens()) == 1, "the expired token is removed")
        running.restart()
        with ottla.blocking.Admin(running.bootstrap, security=running.security("alice")) as admin:
            assert admin.describe_tokens() == [kept]
        assert asyncio.run(ask(running, of_token(kept))) == []


def test_any_broker_of_a_cluster_makes_tokens_for_all() -> None:
    """The controller decides by who asked, whichever broker was asked."""
    with ottla.testing.cluster(3, users=USERS, settings=SETTINGS) as cluster:
        security = cluster.security("alice")
        made = []
        for address in cluster.bootstrap.split(","):
            with ottla.blocking.Admin(address, security=security) as admin:
                made.append(admin.create_token(renewers=["bob"]))
        assert {token.owner for token in made} == {"User:alice"}
        for address, token in itertools.product(cluster.bootstrap.split(","), made):
            with ottla.blocking.Admin(address, security=of_token(token)) as handed_on:
                assert handed_on.list_topics() == []
        with ottla.blocking.Admin(cluster.bootstrap, security=cluster.security("carol")) as admin:
            for token in made:
                with pytest.raises(KafkaError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
                    admin.expire_token(token)
        with ottla.blocking.Admin(cluster.bootstrap, security=cluster.security("bob")) as admin:
            assert sorted(each.token_id for each in admin.describe_tokens()) == sorted(
                each.token_id for each in made
            )


# ---- on behalf of others


def in_an_envelope(user: str) -> EnvelopeRequest:
    """A request for a token, as the broker that `user` had asked would hand it on."""
    frame = bytearray()
    header = RequestHeader(ApiKey.CREATE_DELEGATION_TOKEN, 3, 0, "forger")
    write_request(header, CreateDelegationTokenRequest(), frame)
    who = written_principal(Principal("User", user))
    return EnvelopeRequest(request_data=bytes(frame[SIZE_BYTES:]), request_principal=who)


def test_without_an_authoriser_only_the_user_of_nodes_asks_for_tokens_of_others() -> None:
    """An open envelope is how brokers hand requests on: the name on it is nobody's proof (KIP-590)."""
    settings = {"delegation.token.secret.key": SECRET, "ottla.sasl.inter.broker.username": "carol"}
    with ottla.testing.broker(users=USERS, settings=settings) as running:
        refused = []
        for user in ("bob", "carol"):
            with Peer(running.port) as peer:
                assert handshake(peer).error_code == 0
                assert authenticate(peer, f"\0{user}\0{USERS[user]}".encode()).error_code == 0
                refused.append(peer.ask(ApiKey.ENVELOPE, 0, in_an_envelope("alice")).error_code)
        assert refused == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE]
        with ottla.blocking.Admin(running.bootstrap, security=running.security("alice")) as admin:
            assert [token.owner for token in admin.describe_tokens()] == ["User:alice"]


# ---- the command line


def test_the_command_line_creates_lists_renews_and_expires(broker: EmbeddedBroker, tmp_path: Path) -> None:
    config = tmp_path / "alice.properties"
    config.write_text(
        f"bootstrap.servers={broker.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=alice\nsasl.password={USERS['alice']}\n"
    )

    def run(*arguments: str, status: int = 0) -> str:
        done = CliRunner().invoke(command, ["tokens", *arguments, "--config", str(config)])
        assert done.exit_code == status, done.output
        return done.output

    assert "no tokens that you may see" in run("list")
    made = json.loads(run("create", "--renewer", "bob", "--max-hours", "48", "--json"))
    assert (made["owner"], made["renewers"]) == ("User:alice", ["User:bob"])
    listed = run("list")
    assert made["token_id"] in listed
    assert made["hmac"] not in listed + run("list", "--json")
    assert (
        json.loads(run("renew", made["token_id"], "--hours", "1", "--json"))["expires_ms"]
        < made["expires_ms"]
    )
    with_token = tmp_path / "token.properties"
    with_token.write_text(
        f"bootstrap.servers={broker.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made["token_id"]}" password="{made["hmac"]}" tokenauth="true";\n'
    )
    topics = CliRunner().invoke(command, ["topics", "list", "--config", str(with_token)])
    assert topics.exit_code == 0, topics.output
    assert "expires at" in run("expire", made["token_id"])
    assert "There is no token" in run("renew", made["token_id"], status=1)
    text = run("create", "--owner", "alice")
    assert "HMAC:" in text
    assert "it can be renewed until" in text
    run("expire", text.split()[2])
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in run("create", "--owner", "bob", status=1)


def test_what_the_page_says_can_be_done(
    broker: EmbeddedBroker, admins: dict[str, ottla.blocking.Admin], tmp_path: Path
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    section = re.split(r"^#+ ", page.split("### Delegation tokens", 1)[1], flags=re.MULTILINE)[0]
    (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    _, commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {"alice": broker.security("alice")}
    code = compile(
        program.replace("localhost:9092", broker.bootstrap),
        "security.md",
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    asyncio.run(eval(code, names))
    assert names["token"].renewers == ("User:airflow",)
    config = tmp_path / "alice.properties"
    config.write_text(
        f"bootstrap.servers={broker.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=alice\nsasl.password={USERS['alice']}\n"
    )
    token_id = names["token"].token_id
    for line in commands.replace("alice.properties", str(config)).replace("TOKEN_ID", token_id).splitlines():
        done = CliRunner().invoke(command, line.split()[1:])
        assert done.exit_code == 0, done.output
    assert token_id not in [token.token_id for token in admins["alice"].describe_tokens()]
