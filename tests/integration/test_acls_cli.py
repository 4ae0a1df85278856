"""`ottla acls` and `ottla users`, and the same calls of `ottla.Admin` and `ottla.blocking.Admin` (OPS-5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.integration.in_process import BrokerThread, broker_thread

import ottla
import ottla.blocking
from ottla import Acl, AclFilter, Operation, Pattern, PatternType, Permission, ScramPassword, ScramRemoval
from ottla.cli.main import ottla as command
from ottla.security.sasl.scram import ScramMechanism, has_password

SETTINGS = {"authorizer.class.name": "acl", "super.users": "User:root;User:ANONYMOUS"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("acls") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _nothing_is_left(guarded: BrokerThread) -> Iterator[None]:
    yield
    run(guarded, "acls", "remove", "--all")


def run(served: BrokerThread, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [*arguments, "--bootstrap", f"localhost:{served.port}"], input=stdin)


def answer(served: BrokerThread, *arguments: str, stdin: str | None = None) -> Any:
    done = run(served, *arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_rights_are_added_listed_checked_and_removed(guarded: BrokerThread) -> None:
    added = run(guarded, "acls", "add", "alice", "read", "describe-configs", "--topic", "orders")
    assert added.output.splitlines() == [
        "Added: User:alice may read topic orders.",
        "Added: User:alice may describe_configs topic orders.",
    ]
    run(guarded, "acls", "add", "User:alice", "write", "--topic", "ord", "--prefix", "--host", "10.0.0.1")
    shown = answer(guarded, "acls", "list", "--topic", "orders")
    assert [(each["operation"], each["pattern"], each["host"]) for each in shown] == [
        ("write", "prefixed", "10.0.0.1"),
        ("read", "literal", "*"),
        ("describe_configs", "literal", "*"),
    ]
    assert "User:alice" in run(guarded, "acls", "list").output
    removed = run(guarded, "acls", "remove", "--principal", "alice", "--operation", "read")
    assert removed.output == "Removed: User:alice may read topic orders.\n"
    again = run(guarded, "acls", "remove", "--principal", "alice", "--operation", "read")
    assert again.output == "No access control list fits; see them with: ottla acls list\n"
    assert len(answer(guarded, "acls", "list", "--principal", "alice")) == 2


def test_check_names_the_rule_that_decides(guarded: BrokerThread) -> None:
    assert checked(guarded, "alice", "write", "--topic", "orders") == (
        1,
        "User:alice must not write topic orders: no ACL is about this resource.\n",
    )
    run(guarded, "acls", "add", "alice", "write", "--topic", "ord", "--prefix")
    assert checked(guarded, "alice", "write", "--topic", "orders") == (
        0,
        "User:alice may write topic orders: an ACL allows it: User:alice may write topic ord (prefix).\n",
    )
    run(guarded, "acls", "add", "*", "write", "--deny", "--topic", "orders", "--host", "10.0.0.9")
    assert checked(guarded, "alice", "write", "--topic", "orders")[0] == 0
    assert checked(guarded, "alice", "write", "--topic", "orders", "--host", "10.0.0.9") == (
        1,
        "User:alice must not write topic orders: "
        "an ACL denies it: User:* must not write topic orders from 10.0.0.9.\n",
    )
    assert checked(guarded, "root", "alter", "--cluster") == (
        0,
        "User:root may alter cluster kafka-cluster: User:root is a super user.\n",
    )


def checked(served: BrokerThread, *arguments: str) -> tuple[int, str]:
    done = run(served, "acls", "check", *arguments)
    return done.exit_code, done.output


def test_a_user_is_a_resource_as_well(guarded: BrokerThread) -> None:
    """Whose delegation tokens somebody may create."""
    added = run(guarded, "acls", "add", "gateway", "create-tokens", "--user", "alice", "--user", "User:bob")
    assert added.output.splitlines() == [
        "Added: User:gateway may create_tokens user User:alice.",
        "Added: User:gateway may create_tokens user User:bob.",
    ]
    shown = answer(guarded, "acls", "list", "--user", "alice")
    assert [(each["resource"], each["name"]) for each in shown] == [("user", "User:alice")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "alice", "read"), "name a resource"),
        (("add", "alice", "fly", "--topic", "t"), "'fly' is no operation; there are all, read"),
        (("add", "alice", "read", "--cluster"), "a cluster knows no operation read; it knows create"),
        (("add", "alice", "read", "--topic", ""), "must not be empty"),
        (("add", "User:", "read", "--topic", "t"), "a principal is User:name"),
        (("remove",), "say which"),
        (("check", "alice", "read", "--topic", "a", "--topic", "b"), "name one resource only"),
        (("check", "alice", "read", "--topic", "a", "--prefix"), "ask about one resource by its name"),
    ],
)
def test_a_command_that_makes_no_sense_says_why(
    guarded: BrokerThread, arguments: tuple[str, ...], said: str
) -> None:
    done = run(guarded, "acls", *arguments)
    assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output


def test_a_broker_without_an_authoriser_says_what_to_set(served: BrokerThread) -> None:
    for arguments in (
        ("list",),
        ("add", "alice", "read", "--topic", "t"),
        ("remove", "--all"),
        ("check", "alice", "read", "--topic", "t"),
    ):
        done = run(served, "acls", *arguments)
        assert done.exit_code == 1
        assert "set authorizer.class.name on every broker (SECURITY_DISABLED)" in done.output


def test_users_are_added_listed_changed_and_removed(guarded: BrokerThread, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\nsecond line\n")
    added = run(guarded, "users", "add", "alice", "--password-file", str(file))
    assert added.output == "Added user 'alice', who logs in with SCRAM-SHA-512.\n"
    assert proves(guarded, "alice", "first")
    again = run(guarded, "users", "add", "alice", "--password-file", str(file))
    assert (again.exit_code, "ottla users password alice" in again.output) == (1, True)
    changed = run(guarded, "users", "password", "alice", "--password-stdin", stdin="other\n")
    assert changed.output == "'alice' has another password for SCRAM-SHA-512.\n"
    assert (proves(guarded, "alice", "first"), proves(guarded, "alice", "other")) == (False, True)
    answer(
        guarded, "users", "add", "alice", "--mechanism", "SCRAM-SHA-256", "--password-stdin", stdin="third"
    )
    listed = answer(guarded, "users", "list")
    assert listed == [{"user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}]
    assert "SCRAM-SHA-256" in run(guarded, "users", "list").output
    removed = run(guarded, "users", "remove", "alice")
    assert removed.output.splitlines() == [
        "'alice' cannot log in with SCRAM-SHA-256 any more.",
        "'alice' cannot log in with SCRAM-SHA-512 any more.",
    ]
    assert run(guarded, "users", "list").output == "There are no users.\n"


def proves(served: BrokerThread, name: str, password: str) -> bool:
    users = served.call(lambda: served.broker.quorum.image.scram_users)
    mechanism = ScramMechanism.SCRAM_SHA_512
    return has_password(mechanism, users[name][mechanism], password)


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("add", "bob"), None, "there is no terminal to ask for a password"),
        (
            ("add", "bob", "--password-stdin"),
            "\n",
            "There is no password in the first line of standard input",
        ),
        (("add", "bob", "--password-file", "/no/such/file"), None, "cannot be read"),
        (("add", "bob", "--password-stdin", "--password-file", "x"), "x", "not both"),
        (("add", "bob", "--password-stdin", "--iterations", "5"), "x", "4096<=x<=16384"),
        (("password", "nobody", "--password-stdin"), "x", "There is no user 'nobody'"),
        (("remove", "nobody"), None, "There is no user 'nobody'"),
        (("add", "bob", "secret"), None, "unexpected extra argument"),
    ],
)
def test_a_user_that_cannot_be_changed_is_told_why(
    guarded: BrokerThread, arguments: tuple[str, ...], stdin: str | None, said: str
) -> None:
    done = run(guarded, "users", *arguments, stdin=stdin)
    assert done.exit_code in (1, 2)
    assert said in done.output


def test_the_clients_change_rights_and_users(guarded: BrokerThread) -> None:
    bootstrap = f"localhost:{guarded.port}"
    reads = Acl(Pattern.topic("orders"), "User:bob", "*", Operation.READ)
    denied = Acl(Pattern.group("g", is_prefix=True), "User:bob", "*", Operation.READ, Permission.DENY)
    broken = Acl(Pattern.topic(""), "User:bob", "*", Operation.READ)

    async def session() -> None:
        async with ottla.Admin(bootstrap) as admin:
            created = await admin.create_acls([reads, denied, broken])
            assert (created[reads], created[denied]) == (None, None)
            assert isinstance(created[broken], ottla.KafkaError)
            assert sorted(await admin.describe_acls(AclFilter(principal="User:bob"))) == [reads, denied]
            by_name = AclFilter(name="group", pattern_type=PatternType.MATCH)
            assert await admin.delete_acls([by_name]) == {by_name: [denied]}
            changes: list[ScramPassword | ScramRemoval] = [
                ScramPassword("bob", "secret"),
                ScramRemoval("nobody"),
            ]
            assert "secret" not in repr(changes)
            altered = await admin.alter_users(changes)
            assert altered["bob"] is None
            assert isinstance(altered["nobody"], ottla.KafkaError)
            assert (await admin.describe_users(["bob"])) == {"bob": {"SCRAM-SHA-512": 4096}}

    asyncio.run(session())
    with ottla.blocking.Admin(bootstrap) as admin:
        assert admin.describe_acls() == [reads]
        assert admin.alter_users([ScramRemoval("bob")]) == {"bob": None}
        assert admin.describe_users() == {}


def test_a_wrong_password_is_refused_without_being_shown(guarded: BrokerThread) -> None:
    with ottla.blocking.Admin(f"localhost:{guarded.port}") as admin:
        for wrong in ("", "secr\ud800et", b"secret"):
            with pytest.raises((TypeError, ValueError)) as refused:
                admin.alter_users([ScramPassword("bob", wrong)])  # type: ignore[arg-type]
            assert "the password of bob in changes must" in str(refused.value)
            assert "secr" not in str(refused.value)
