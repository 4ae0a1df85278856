"""Unmodified clients, and ours, at a listener with TLS (OPS-5)."""

from __future__ import annotations

import ast
import asyncio
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from tests.integration.tls_place import Place, place_with_tls

import ottla
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.localcluster.ports import HOST
from ottla.model import Address
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.runtime.tls_context import client_context
from ottla.testing import cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_with_tls(tmp_path_factory.mktemp("tls-clients")) as made:
        yield made


def test_our_producer_consumer_and_admin_speak_tls(place: Place, topic: str) -> None:
    async def talk() -> list[bytes | None]:
        async with ottla.Admin(place.address, security=place.security) as admin:
            await admin.create_topics([ottla.NewTopic(topic)])
        async with ottla.Producer(place.address, security=place.security) as producer:
            for number in range(100):
                await producer.send(topic, b"%d" % number)
        consumer = ottla.Consumer(place.address, security=place.security, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([ottla.TopicPartition(topic, 0)])
            values: list[bytes | None] = []
            while len(values) < 100:
                values += [record.value for record in await consumer.poll(timeout_ms=1_000)]
        return values

    assert asyncio.run(talk()) == [b"%d" % number for number in range(100)]


def test_the_blocking_connection_of_spark_speaks_tls(place: Place) -> None:
    connection = BlockingConnection(
        Address(HOST, place.port),
        client_id="spark",
        timeout_ms=15_000,
        connect_timeout_ms=15_000,
        security=place.security,
    )
    assert connection.ask(MetadataRequest(topics=[])).brokers
    connection.close()


def test_librdkafka_produces_and_consumes(place: Place, topic: str) -> None:
    common = {
        "bootstrap.servers": place.address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(place.authority.ca_file),
        "ssl.certificate.location": str(place.alice.certificate),
        "ssl.key.location": str(place.alice.key),
    }
    producer = confluent_kafka.Producer(common)
    producer.produce(topic, b"librdkafka")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({**common, "group.id": "rd", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = consumer.poll(30)
    consumer.close()
    assert found is not None
    assert (found.error(), found.value()) == (None, b"librdkafka")


def test_aiokafka_produces_and_consumes(place: Place, topic: str) -> None:
    async def talk() -> bytes:
        options: dict[str, Any] = {
            "bootstrap_servers": place.address,
            "security_protocol": "SSL",
            "ssl_context": client_context(place.security),
        }
        producer = AIOKafkaProducer(**options)
        await producer.start()
        await producer.send_and_wait(topic, b"aiokafka")
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest")
        await consumer.start()
        value: bytes = (await consumer.getone()).value
        await consumer.stop()
        return value

    assert asyncio.run(talk()) == b"aiokafka"


def test_kafka_python_produces_and_consumes(place: Place, topic: str) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": place.address,
        "security_protocol": "SSL",
        "ssl_cafile": str(place.authority.ca_file),
        "ssl_certfile": str(place.alice.certificate),
        "ssl_keyfile": str(place.alice.key),
    }
    producer = KafkaProducer(**options)
    producer.send(topic, b"kafka-python").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, **options, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    value = next(iter(consumer)).value
    consumer.close()
    assert value == b"kafka-python"


def test_the_program_on_the_page_about_security_runs(place: Place) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (block,) = (each for each in blocks if "broker1.example.org:9093" in each)
    program = block.replace("broker1.example.org:9093", place.address)
    program = program.replace('"authority.pem"', repr(str(place.authority.ca_file)))
    code = compile(program, "security.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        await eval(code, {})

    asyncio.run(run())


def test_a_login_on_an_encrypted_connection_works_for_clients_and_among_brokers(
    place: Place, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.touch(mode=0o600)
    users.write_text("broker=secret\nalice=secret2\n")
    settings = {
        "security.inter.broker.protocol": "SASL_SSL",
        "ssl.truststore.location": str(place.authority.ca_file),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ottla.sasl.users.file": str(users),
        "ottla.sasl.inter.broker.username": "broker",
        **place.authority.issue("brokers").broker_settings(),
    }

    async def talk(bootstrap: str, security: ottla.Security) -> int:
        async with ottla.Producer(bootstrap, security=security, acks="all") as producer:
            return (await producer.send("t", b"v")).offset

    with cluster(2, settings=settings) as secured:
        for offset, mechanism in enumerate(("PLAIN", "SCRAM-SHA-512")):
            security = ottla.Security(
                protocol="SASL_SSL",
                ca_file=place.authority.ca_file,
                sasl_mechanism=mechanism,  # type: ignore[arg-type]
                username="alice",
                password="secret2",
            )
            assert asyncio.run(talk(secured.bootstrap, security)) == offset
            port = secured.brokers[1].port
            connection = BlockingConnection(
                Address(HOST, port),
                client_id="c",
                timeout_ms=15_000,
                connect_timeout_ms=15_000,
                security=security,
            )
            assert connection.ask(MetadataRequest(topics=[])).brokers
            connection.close()
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": secured.bootstrap,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(place.authority.ca_file),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "secret2",
            }
        )
        producer.produce("t", b"librdkafka")
        assert producer.flush(30) == 0
