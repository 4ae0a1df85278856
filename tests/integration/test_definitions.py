"""Definitions made for Apache Kafka, used as they are: settings without effect here, settings that the broker does
not know, transactional producers (CTL-7, WIRE-1).
"""

import select
import socket
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.integration.command_line import ottla
from tests.integration.in_process import BrokerThread

DEADLINE_S = 15.0

WITHOUT_EFFECT = {
    "follower.replication.throttled.replicas": "0:1,0:2",
    "leader.replication.throttled.replicas": "*",
    "preallocate": "true",
}
WITH_EFFECT = {
    "local.retention.bytes": "1000",
    "local.retention.ms": "1000",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "compression.gzip.level": "9",
    "compression.lz4.level": "12",
    "compression.zstd.level": "-7",
    "index.interval.bytes": "1024",
}


def address(served: BrokerThread) -> str:
    return f"127.0.0.1:{served.port}"


@pytest.fixture
def admin(served: BrokerThread) -> AdminClient:
    return AdminClient({"bootstrap.servers": address(served)})


def outcome_of(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(DEADLINE_S)


def create(admin: AdminClient, topic: str, config: dict[str, str]) -> None:
    outcome_of(admin.create_topics([NewTopic(topic, 1, 1, config=config)], request_timeout=DEADLINE_S))


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    entries: dict[str, ConfigEntry] = outcome_of(admin.describe_configs([ConfigResource(kind, name)]))
    return entries


def test_a_topic_defined_for_kafka_is_created_and_keeps_its_settings(
    served: BrokerThread, admin: AdminClient, topic: str
) -> None:
    create(admin, topic, WITHOUT_EFFECT | WITH_EFFECT)
    entries = described(admin, ResourceType.TOPIC, topic)
    for name, value in (WITHOUT_EFFECT | WITH_EFFECT).items():
        assert (entries[name].value, entries[name].source) == (value, 1), name
    lines = ottla("topics", "describe", topic, bootstrap=address(served)).stdout.splitlines()
    shown = {line.strip() for line in lines}
    assert {f"{name}={value}  (without effect)" for name, value in WITHOUT_EFFECT.items()} <= shown
    assert {f"{name}={value}" for name, value in WITH_EFFECT.items()} <= shown


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("no.such.setting", "1", "Unknown topic config name: no.such.setting"),
        ("retention.mss", "1", "Unknown topic config name: retention.mss; did you mean 'retention.ms'?"),
        ("compression.gzip.level", "0", "it must be a whole number from 1 to 9, or -1"),
        ("compression.lz4.level", "18", "it must be a whole number from 1 to 17"),
        ("compression.zstd.level", "23", "it must be a whole number from -131072 to 22"),
        ("local.retention.ms", "-3", "it must be a whole number, at least -2"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker"),
        ("leader.replication.throttled.replicas", "0-1", "it must be * or a list of partition:broker"),
    ],
)
def test_a_definition_that_kafka_refuses_is_refused_in_a_sentence(
    admin: AdminClient, topic: str, name: str, value: str, sentence: str
) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        create(admin, topic, {name: value})
    error = caught.value.args[0]
    assert error.code() == confluent_kafka.KafkaError.INVALID_CONFIG
    assert sentence in error.str()


def test_a_broker_setting_that_is_not_known_is_kept_and_hidden(admin: AdminClient) -> None:
    change = ConfigResource(
        ResourceType.BROKER, "1", incremental_configs=[entry("plugin.password", "secret")]
    )
    outcome_of(admin.incremental_alter_configs([change]))
    kept = described(admin, ResourceType.BROKER, "1")["plugin.password"]
    assert (kept.value, kept.is_sensitive, kept.is_read_only, kept.source) == (None, True, True, 2)


def entry(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET)


def test_limits_of_connections_change_while_the_broker_runs(served: BrokerThread, admin: AdminClient) -> None:
    def limit(value: str) -> None:
        change = ConfigResource(
            ResourceType.BROKER, "1", incremental_configs=[entry("max.connections", value)]
        )
        outcome_of(admin.incremental_alter_configs([change]))

    def connected(count: int) -> int:
        """How many of so many new connections are open when the first one was closed, or none after a while."""
        with ExitStack() as stack:
            opened = [
                stack.enter_context(socket.create_connection(("127.0.0.1", served.port), DEADLINE_S))
                for _ in range(count)
            ]
            readable, _, _ = select.select(opened, [], [], 0.5)
            return count - len(readable)

    limit("20")
    assert connected(30) < 30
    limit("100")
    assert connected(30) == 30
