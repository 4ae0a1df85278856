"""Unmodified clients log in to brokers: librdkafka, aiokafka and kafka-python, by every mechanism, with and without TLS (OPS-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import pytest
from tests.clients.encryption import (
    protocol_of_aiokafka,
    protocol_of_kafka_python,
    protocol_of_librdkafka,
)

import ottla.testing
from ottla.testing import EmbeddedBroker

USER, PASSWORD = "alice", "Sesam, öffne=dich 1"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TIMEOUT_S = 30


@pytest.fixture(scope="module", params=[False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def secured(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(users={USER: PASSWORD}, tls=request.param) as running:
        running.create_topic("t")
        yield running


def confluent(broker: EmbeddedBroker, mechanism: str, password: str, value: bytes) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            **protocol_of_librdkafka(broker.security(USER)),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "error_cb": errors.append,
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
    )
    delivered: list[Any] = []
    producer.produce("t", value, on_delivery=lambda error, _: delivered.append(error))
    while not delivered:
        producer.poll(0.1)
        refusal = next((e for e in errors if e.code() == confluent_kafka.KafkaError._AUTHENTICATION), None)
        if refusal is not None:
            producer.purge()
            raise PermissionError(refusal.str())
    assert delivered == [None]


def of_aiokafka(broker: EmbeddedBroker, mechanism: str, password: str, value: bytes) -> None:
    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            **protocol_of_aiokafka(broker.security(USER)),
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            await producer.send_and_wait("t", value)
        finally:
            await producer.stop()

    try:
        asyncio.run(asyncio.wait_for(send(), TIMEOUT_S))
    except aiokafka.errors.KafkaConnectionError as error:
        raise PermissionError(str(error)) from error


def kafka_python(broker: EmbeddedBroker, mechanism: str, password: str, value: bytes) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        **protocol_of_kafka_python(broker.security(USER)),
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=password,
    )
    try:
        producer.send("t", value).get(TIMEOUT_S)
    finally:
        producer.close()


Family = Callable[[EmbeddedBroker, str, str, bytes], None]
FAMILIES: tuple[Family, ...] = (confluent, of_aiokafka, kafka_python)
# kafka-python tries again for as long as it may, and leaves its sockets open.
THAT_GIVE_UP: tuple[Family, ...] = (confluent, of_aiokafka)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_logs_in_and_writes(secured: EmbeddedBroker, family: Family, mechanism: str) -> None:
    value = f"{family.__name__} {mechanism}".encode()
    family(secured, mechanism, PASSWORD, value)
    assert value in [record.value for record in secured.records("t")]


# aiokafka leaves encrypted sockets open when it is refused.
@pytest.mark.parametrize("secured", [False], indirect=True, ids=["SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("family", THAT_GIVE_UP)
def test_a_client_with_a_wrong_password_hears_so(
    secured: EmbeddedBroker, family: Family, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PermissionError) as refused:
        family(secured, mechanism, "wrong", b"never")
    assert "invalid credentials" in str(refused.value) + caplog.text
