"""`ottla quotas`, and the same calls of `ottla.Admin` and `ottla.blocking.Admin` (OPS-4)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.integration.in_process import BrokerThread

import ottla
import ottla.blocking
from ottla import QuotaEntity
from ottla.cli.main import ottla as command


def run(served: BrokerThread, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["quotas", *arguments, "--bootstrap", f"localhost:{served.port}"])


def answer(served: BrokerThread, *arguments: str) -> Any:
    done = run(served, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_quotas_are_set_listed_and_removed(served: BrokerThread) -> None:
    assert run(served, "list").output == "There are no quotas.\n"
    done = run(served, "set", "--user", "alice", "--produce", "1000", "--fetch", "2000")
    assert done.output.splitlines() == [
        "producer_byte_rate of user alice is 1000 bytes per second.",
        "consumer_byte_rate of user alice is 2000 bytes per second.",
    ]
    run(served, "set", "--user", "alice", "--all-client-ids", "--produce", "5")
    listed = answer(served, "list")
    assert [(each["user"], each["client_id"], each["quota"], each["value"]) for each in listed] == [
        ("alice", None, "consumer_byte_rate", 2000.0),
        ("alice", None, "producer_byte_rate", 1000.0),
        ("alice", "", "producer_byte_rate", 5.0),
    ]
    assert "user alice and all other client ids" in run(served, "list").output
    assert run(served, "remove", "--user", "alice", "--fetch").output == (
        "Removed consumer_byte_rate of user alice.\n"
    )
    assert answer(served, "remove", "--user", "alice")["removed"] == ["producer_byte_rate"]
    assert "There is no such quota of user alice" in run(served, "remove", "--user", "alice").output
    run(served, "remove", "--user", "alice", "--all-client-ids")
    assert answer(served, "list") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "--produce", "5"), "say for whom"),
        (("set", "--user", "alice"), "say how much"),
        (("set", "--user", "alice", "--all-users", "--fetch", "5"), "not both"),
        (("set", "--user", "", "--fetch", "5"), "must not be empty"),
        (("set", "--user", "alice", "--fetch", "0"), "is not in the range"),
    ],
)
def test_a_command_that_makes_no_sense_says_why(
    served: BrokerThread, arguments: tuple[str, ...], said: str
) -> None:
    done = run(served, *arguments)
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_the_clients_change_quotas(served: BrokerThread) -> None:
    bootstrap = f"localhost:{served.port}"
    shop, refused = QuotaEntity(client_id="shop"), QuotaEntity(user="alice")

    async def session() -> None:
        async with ottla.Admin(bootstrap) as admin:
            outcomes = await admin.alter_quotas(
                {shop: {"consumer_byte_rate": 5000}, refused: {"request_percentage": 50}}
            )
            assert outcomes[shop] is None
            assert "request_percentage is not enforced" in str(outcomes[refused])

    asyncio.run(session())
    with ottla.blocking.Admin(bootstrap) as admin:
        assert admin.describe_quotas() == {shop: {"consumer_byte_rate": 5000.0}}
        assert admin.alter_quotas({shop: {"consumer_byte_rate": None}}) == {shop: None}
        assert admin.describe_quotas() == {}
