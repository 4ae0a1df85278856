"""Apache Kafka's own tools for rights, users and quotas, unmodified: kafka-acls and kafka-configs (OPS-4,
OPS-5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.apache.kafka import fetch, run_tool
from bench.apache.maven import CannotFetchError

from ottla import Acl, Operation, Pattern, Permission, QuotaEntity
from ottla.blocking import Admin
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker

SETTINGS = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    with running(start_broker(tmp_path_factory.mktemp("secured") / "data", SETTINGS)) as process:
        yield process


def tool(broker: BrokerProcess, name: str, *arguments: str) -> str:
    result = run_tool(name, "--bootstrap-server", broker.bootstrap, *arguments)
    assert result.status == 0, result.everything
    return result.stdout


def test_kafka_acls_adds_lists_and_removes(guarded: BrokerProcess) -> None:
    tool(
        guarded,
        *("acls", "--add", "--allow-principal", "User:alice", "--consumer"),
        *("--topic", "orders", "--group", "billing"),
    )
    tool(
        guarded,
        *("acls", "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Write"),
        *("--topic", "shop-", "--resource-pattern-type", "prefixed"),
    )
    with Admin(guarded.bootstrap) as admin:
        assert sorted(admin.describe_acls()) == sorted(
            [
                Acl(Pattern.topic("orders"), "User:alice", "*", Operation.READ),
                Acl(Pattern.topic("orders"), "User:alice", "*", Operation.DESCRIBE),
                Acl(Pattern.group("billing"), "User:alice", "*", Operation.READ),
                Acl(
                    Pattern.topic("shop-", is_prefix=True),
                    "User:bob",
                    "10.0.0.1",
                    Operation.WRITE,
                    Permission.DENY,
                ),
            ]
        )
    matching = ("--topic", "shop-archive", "--resource-pattern-type", "match")
    assert "principal=User:bob, host=10.0.0.1, operation=WRITE" in tool(guarded, "acls", "--list", *matching)
    tool(guarded, "acls", "--remove", "--force", "--topic", "orders")
    tool(guarded, "acls", "--remove", "--force", "--group", "billing")
    listed = tool(guarded, "acls", "--list")
    assert ("alice" in listed, "bob" in listed) == (False, True)


def test_kafka_configs_changes_users(guarded: BrokerProcess) -> None:
    user = ("--entity-type", "users", "--entity-name", "alice")
    tool(guarded, "configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]")
    tool(guarded, "configs", "--alter", *user, "--add-config", "SCRAM-SHA-512=[password=y]")
    with Admin(guarded.bootstrap) as admin:
        assert admin.describe_users() == {"alice": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096}}
    assert "SCRAM-SHA-256=iterations=8192" in tool(guarded, "configs", "--describe", *user)
    tool(guarded, "configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    with Admin(guarded.bootstrap) as admin:
        assert admin.describe_users() == {"alice": {"SCRAM-SHA-512": 4096}}


def test_kafka_configs_changes_quotas(guarded: BrokerProcess) -> None:
    both = ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default")
    tool(
        guarded,
        "configs",
        "--alter",
        *both,
        "--add-config",
        "producer_byte_rate=1000,consumer_byte_rate=2000",
    )
    entity = QuotaEntity(user="bob", client_id="")
    with Admin(guarded.bootstrap) as admin:
        assert admin.describe_quotas() == {
            entity: {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}
        }
    described = tool(guarded, "configs", "--describe", *both)
    assert "user-principal 'bob', the default client-id are" in described
    assert "consumer_byte_rate=2000.0" in described
    tool(guarded, "configs", "--alter", *both, "--delete-config", "consumer_byte_rate")
    with Admin(guarded.bootstrap) as admin:
        assert admin.describe_quotas() == {entity: {"producer_byte_rate": 1000.0}}


def test_kafka_configs_changes_quotas_of_time_of_partitions_and_of_addresses(guarded: BrokerProcess) -> None:
    user = ("--entity-type", "users", "--entity-name", "carol")
    tool(
        guarded,
        *("configs", "--alter", *user),
        *("--add-config", "request_percentage=12.5,controller_mutation_rate=0.5"),
    )
    address = ("--entity-type", "ips", "--entity-name", "10.0.0.7")
    others = ("--entity-type", "ips", "--entity-default")
    for entity, rate in ((address, 5), (others, 7)):
        tool(guarded, "configs", "--alter", *entity, "--add-config", f"connection_creation_rate={rate}")
    with Admin(guarded.bootstrap) as admin:
        quotas = admin.describe_quotas()
    assert quotas[QuotaEntity(user="carol")] == {"request_percentage": 12.5, "controller_mutation_rate": 0.5}
    assert quotas[QuotaEntity(ip="10.0.0.7")] == {"connection_creation_rate": 5.0}
    assert quotas[QuotaEntity(ip="")] == {"connection_creation_rate": 7.0}
    assert "connection_creation_rate=5.0" in tool(guarded, "configs", "--describe", *address)
    for entity in (address, others):
        tool(guarded, "configs", "--alter", *entity, "--delete-config", "connection_creation_rate")
    tool(
        guarded, "configs", "--alter", *user, "--delete-config", "request_percentage,controller_mutation_rate"
    )


def test_kafka_configs_changes_the_limits_of_a_listener(guarded: BrokerProcess) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    limit = "listener.name.plaintext.max.connections"
    tool(guarded, "configs", "--alter", *broker, "--add-config", f"{limit}=500")
    assert f"{limit}=500" in tool(guarded, "configs", "--describe", *broker)
    tool(guarded, "configs", "--alter", *broker, "--delete-config", limit)
    assert limit not in tool(guarded, "configs", "--describe", *broker)
