"""Topics with `schema.validation`: a record has to name a schema that is registered for its topic. GTW-4."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from threading import Thread
from typing import Any, Literal

import confluent_kafka
import pytest
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla
import ottla.testing
from ottla.blocking import Admin, Producer
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.requests.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.schemas.wire_format import guid_header
from ottla.serializers import Registry
from ottla.serializers.registry_client import RegistrySchema
from ottla.server.broker import Broker
from ottla.server.schemas import schemas_topic
from ottla.server.schemas.plan.named_schemas import Named
from ottla.testing.embedded_broker import EmbeddedBroker

VALIDATED = {"schema.validation": "true"}
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap) as place:
        yield place


@pytest.fixture
def registry(gateway: GatewayPlace) -> Registry:
    return Registry(gateway.gateway.url)


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[Producer]:
    with Producer(broker.bootstrap) as opened:
        yield opened


def registered(registry: Registry, subject: str, name: str = "R") -> RegistrySchema:
    """A schema of its own for a subject."""
    text = f'{{"type":"record","name":"{name}","fields":[]}}'
    return registry.register(subject, RegistrySchema(text))


def by_id(schema_id: int, data: bytes = b"data") -> bytes:
    return struct.pack(">bi", 0, schema_id) + data


def refusal(producer: Producer, topic: str, value: bytes | None, **fields: Any) -> str:
    """What is said about a record that is refused."""
    with pytest.raises(DeliveryError) as refused:
        producer.send(topic, value, **fields)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    return refused.value.message


def set_configs(broker: EmbeddedBroker, topic: str, configs: Mapping[str, str]) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with Admin(broker.bootstrap) as admin:
        changes = [ConfigChange(*each) for each in configs.items()]
        assert succeeded(admin.alter_configs({resource: changes})) == {resource: None}


def test_a_record_names_a_schema_of_its_topic_by_id_or_by_guid(
    broker: EmbeddedBroker, registry: Registry, producer: Producer
) -> None:
    topic = broker.create_topic("orders", configs=VALIDATED)
    order = registered(registry, "orders-value", "Order")
    bill = registered(registry, "bills-value", "Bill")
    assert producer.send(topic, by_id(order.id)).offset == 0
    assert producer.send(topic, b"data", headers=[guid_header("value", order.guid)]).offset == 1
    assert producer.send(topic, by_id(order.id), headers={"other": b"header"}).offset == 2
    assert producer.send(topic, None, "a key").offset == 3  # as a tombstone of a compacted topic
    assert "the schema 999 is not registered under orders-value" in refusal(producer, topic, by_id(999))
    # Registered, but for another topic.
    assert f"the schema {bill.id} is not registered under" in refusal(producer, topic, by_id(bill.id))
    foreign = [guid_header("value", bill.guid)]
    assert f"the schema {bill.guid} is not" in refusal(producer, topic, b"data", headers=foreign)
    assert "names no schema" in refusal(producer, topic, b"no schema at all")
    assert "names no schema" in refusal(producer, topic, b"")
    assert [each.offset for each in broker.records(topic)] == [0, 1, 2, 3]


def test_a_schema_that_was_registered_a_moment_ago_is_known(
    broker: EmbeddedBroker, registry: Registry, producer: Producer
) -> None:
    topic = broker.create_topic("evolving", configs=VALIDATED)
    for number in range(5):
        field = {"name": f"f{number}", "type": "int", "default": 0}
        text = json.dumps({"type": "record", "name": "E", "fields": [field]})
        known = registry.register("evolving-value", RegistrySchema(text))
        assert producer.send(topic, by_id(known.id)).offset == number


def test_the_refused_records_of_a_batch_are_named(broker: EmbeddedBroker, registry: Registry) -> None:
    """KIP-467: our producer sends the others again; librdkafka fails the batch."""
    topic = broker.create_topic("mixed", configs=VALIDATED)
    known = registered(registry, "mixed-value", "Mixed")
    values = [by_id(known.id), by_id(998), by_id(known.id), b"none"]

    async def send() -> list[object]:
        async with ottla.Producer(broker.bootstrap, linger_ms=50) as producer:
            sent = [producer.send(topic, value) for value in values]
            return await asyncio.gather(*sent, return_exceptions=True)

    outcomes = asyncio.run(send())
    assert [isinstance(each, DeliveryError) for each in outcomes] == [False, True, False, True]
    assert len(broker.records(topic)) == 2

    errors: list[int] = []
    plain = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, by_id(997), on_delivery=lambda error, _: errors.append(error.code()))
    assert plain.flush(60) == 0
    assert errors == [ErrorCode.INVALID_RECORD]


def test_keys_any_subject_and_confluents_names(
    broker: EmbeddedBroker, registry: Registry, producer: Producer
) -> None:
    configs = {
        "confluent.key.schema.validation": "true",
        "confluent.value.schema.validation": "true",
        "schema.validation.subjects": "any",
    }
    topic = broker.create_topic("any", configs=configs)
    by_record_name = registered(registry, "shop.Order", "Named")
    good = by_id(by_record_name.id)
    assert producer.send(topic, good, good).offset == 0
    assert producer.send(topic, good).offset == 1  # a null key
    assert refusal(producer, topic, by_id(996), key=good).endswith("the schema 996 is not registered")
    assert "the key names no schema" in refusal(producer, topic, good, key=b"plain")


def test_it_is_turned_on_and_off_under_producers_that_go_on(
    broker: EmbeddedBroker, registry: Registry, producer: Producer
) -> None:
    """Requests that repeat earlier ones are remembered by their shape: not across the change."""
    topic = broker.create_topic("switched")
    registry.subjects()
    for _ in range(3):
        producer.send(topic, b"plain")
    set_configs(broker, topic, VALIDATED)
    assert "names no schema" in refusal(producer, topic, b"plain")
    assert "names no schema" in refusal(producer, topic, b"plain")
    set_configs(broker, topic, {"schema.validation": "false"})
    for _ in range(3):
        producer.send(topic, b"plain")
    assert len(broker.records(topic)) == 6


def test_a_transaction_is_checked_as_well(broker: EmbeddedBroker, registry: Registry) -> None:
    topic = broker.create_topic("in-transactions", configs=VALIDATED)
    known = registered(registry, "in-transactions-value", "T")
    with Producer(broker.bootstrap, transactional_id="validated") as producer:
        with producer.transaction():
            producer.send(topic, by_id(known.id))
        with pytest.raises(ottla.KafkaError), producer.transaction():
            producer.send(topic, by_id(995))
    assert [each.value for each in broker.records(topic)] == [by_id(known.id)]


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_batches_are_looked_into(
    broker: EmbeddedBroker, registry: Registry, compression: Literal["gzip", "zstd"]
) -> None:
    topic = broker.create_topic(f"compressed-{compression}", configs=VALIDATED)
    known = registered(registry, f"{topic}-value", "C")
    with Producer(broker.bootstrap, compression=compression) as producer:
        producer.send(topic, by_id(known.id, b"x" * 10_000))
        refusal(producer, topic, by_id(994, b"x" * 10_000))


def test_a_deleted_schema_is_refused_soon(
    broker: EmbeddedBroker, registry: Registry, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas_topic, "_REFRESH_S", 0.05)
    topic = broker.create_topic("deleted", configs=VALIDATED)
    known = registered(registry, "deleted-value", "D")
    producer.send(topic, by_id(known.id))
    registry.delete("deleted-value")

    def is_refused() -> bool:
        try:
            producer.send(topic, by_id(known.id))
        except DeliveryError as error:
            return error.code is ErrorCode.INVALID_RECORD
        return False

    wait_until(is_refused, "the deletion is known", 60)


def test_a_registration_is_answered_when_brokers_can_know_of_it(
    broker: EmbeddedBroker, registry: Registry, producer: Producer
) -> None:
    """A commit is decided before its markers are written, and until then no reader sees it."""
    topic = broker.create_topic("at-once", configs=VALIDATED)
    registered(registry, "else-value", "Before")  # the producer of schemas is open
    written = len(broker.records("_schemas"))
    made: list[RegistrySchema] = []
    with broker.holding_markers():
        registering = Thread(target=lambda: made.append(registered(registry, f"{topic}-value", "AtOnce")))
        registering.start()
        wait_until(lambda: len(broker.records("_schemas")) > written, "the schema is in the topic")
        assert not made
    registering.join()
    assert producer.send(topic, by_id(made[0].id)).offset == 0


def test_a_broker_with_logins_reads_the_schemas_itself() -> None:
    users = {"root": "secret-r"}
    with ottla.testing.broker(settings=AUTHORIZED, users=users) as broker:
        security = broker.security("root")
        topic = broker.create_topic("secured", configs=VALIDATED)
        with Producer(broker.bootstrap, security=security) as producer:
            assert "not registered" in refusal(producer, topic, by_id(1))  # no registry was ever here
            with gateway_place(broker.bootstrap, security, requires_login=False) as place:
                known = registered(Registry(place.gateway.url), "secured-value")
            producer.send(topic, by_id(known.id))


def knows(broker: EmbeddedBroker, subject: str, schema: RegistrySchema) -> bool:
    """Have a broker read the schemas, as a record would; whether it knows this one already."""
    named = {Named(schema.id, subject): [0]}

    def asked(inside: Broker) -> bool:
        schemas = inside.services.schemas
        if schemas.knows(named):
            return True
        reading = asyncio.get_running_loop().create_task(schemas.refused({}))
        reading.add_done_callback(lambda done: done.exception())
        return False

    return broker.look(asked)


def test_while_the_schemas_cannot_be_read_known_ones_pass_and_others_wait() -> None:
    with ottla.testing.cluster() as cluster:
        cluster.create_topic("_schemas", replication_factor=1, configs={"cleanup.policy": "compact"})
        holder = cluster.leader_of("_schemas")
        topic = cluster.create_topic("known", replication_factor=3, configs=VALIDATED)
        with gateway_place(cluster.bootstrap) as place, Producer(cluster.bootstrap) as producer:
            registry = Registry(place.gateway.url)
            first = registered(registry, "known-value", "First")
            # Every broker: on a busy machine the topic may get another leader.
            for each in cluster.brokers.values():
                wait_until(partial(knows, each, "known-value", first), "a broker knows the schema")
            bill = registered(registry, "bills-value", "Bill")
            cluster.kill(holder)
            producer.send(topic, by_id(first.id))
            with Producer(cluster.bootstrap, delivery_timeout_ms=4_000) as hasty:
                with pytest.raises(DeliveryError) as refused:
                    hasty.send(topic, by_id(bill.id))
                assert refused.value.code is not ErrorCode.INVALID_RECORD
            cluster.start(holder)
            assert "is not registered" in refusal(producer, topic, by_id(bill.id))
