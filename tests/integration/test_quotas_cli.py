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


def test_quotas_of_time_of_partitions_and_of_addresses_are_set_and_removed(served: BrokerThread) -> None:
    done = run(served, "set", "--user", "bob", "--request-time", "12.5", "--mutations", "3")
    assert done.output.splitlines() == [
        "request_percentage of user bob is 12.5 percent of a broker's time.",
        "controller_mutation_rate of user bob is 3 partitions per second.",
    ]
    assert run(served, "set", "--all-ips", "--connections", "20").output.splitlines() == [
        "connection_creation_rate of all other ips is 20 connections per second."
    ]
    assert "no quota of a user" in run(served, "set", "--user", "bob", "--connections", "5").output
    assert [(each["quota"], each["value"]) for each in answer(served, "list")] == [
        ("connection_creation_rate", 20.0),
        ("controller_mutation_rate", 3.0),
        ("request_percentage", 12.5),
    ]
    assert answer(served, "remove", "--all-ips")["removed"] == ["connection_creation_rate"]
    assert answer(served, "remove", "--user", "bob", "--request-time")["removed"] == ["request_percentage"]
    assert answer(served, "remove", "--user", "bob")["removed"] == ["controller_mutation_rate"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "--produce", "5"), "say for whom"),
        (("set", "--user", "alice"), "say how much"),
        (("set", "--user", "alice", "--all-users", "--fetch", "5"), "not both"),
        (("set", "--user", "", "--fetch", "5"), "must not be empty"),
        (("set", "--user", "alice", "--fetch", "0"), "is not in the range"),
        (("set", "--user", "alice", "--request-time", "0"), "is not in the range"),
        (("set", "--ip", "10.0.0.1", "--all-ips", "--connections", "5"), "not both"),
    ],
)
def test_a_command_that_makes_no_sense_says_why(
    served: BrokerThread, arguments: tuple[str, ...], said: str
) -> None:
    done = run(served, *arguments)
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_the_clients_change_quotas(served: BrokerThread) -> None:
    bootstrap = f"localhost:{served.port}"
    shop, refused = QuotaEntity(client_id="shop"), QuotaEntity(ip="nowhere")

    async def session() -> None:
        async with ottla.Admin(bootstrap) as admin:
            outcomes = await admin.alter_quotas(
                {shop: {"consumer_byte_rate": 5000}, refused: {"connection_creation_rate": 50}}
            )
            assert outcomes[shop] is None
            assert "'nowhere' is no address" in str(outcomes[refused])

    asyncio.run(session())
    with ottla.blocking.Admin(bootstrap) as admin:
        assert admin.describe_quotas() == {shop: {"consumer_byte_rate": 5000.0}}
        assert admin.alter_quotas({shop: {"consumer_byte_rate": None}}) == {shop: None}
        assert admin.describe_quotas() == {}
