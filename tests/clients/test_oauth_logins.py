"""Unmodified clients log in by OAUTHBEARER: librdkafka, aiokafka and kafka-python (OPS-5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest
from tests.clients.encryption import (
    protocol_of_aiokafka,
    protocol_of_kafka_python,
    protocol_of_librdkafka,
)
from tests.identity_provider import claims_of, key_file, rsa_key, signed

import ottla.testing
from ottla.testing import EmbeddedBroker

TIMEOUT_S = 30
Token = Callable[[], str]


@pytest.fixture(scope="module", params=[False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    keys: Path = tmp_path_factory.mktemp("keys")
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": key_file(keys),
    }
    with ottla.testing.broker(users={"bob": "secret"}, settings=settings, tls=request.param) as running:
        running.create_topic("t")
        yield running


def confluent(broker: EmbeddedBroker, token: Token, value: bytes) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            **protocol_of_librdkafka(broker.security("bob")),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + 300, "alice", {"traceId": "7"}),
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


def of_aiokafka(broker: EmbeddedBroker, token: Token, value: bytes) -> None:
    class Provider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token()

    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            **protocol_of_aiokafka(broker.security("bob")),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
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


def kafka_python(broker: EmbeddedBroker, token: Token, value: bytes) -> None:
    class Provider(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        **protocol_of_kafka_python(broker.security("bob")),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    try:
        producer.send("t", value).get(TIMEOUT_S)
    finally:
        producer.close()


Family = Callable[[EmbeddedBroker, Token, bytes], None]
FAMILIES: tuple[Family, ...] = (confluent, of_aiokafka, kafka_python)
# kafka-python tries again for as long as it may, and leaves its sockets open.
THAT_GIVE_UP: tuple[Family, ...] = (confluent, of_aiokafka)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_logs_in_with_a_token_and_writes(secured: EmbeddedBroker, family: Family) -> None:
    value = family.__name__.encode()
    family(secured, lambda: signed(claims_of()), value)
    assert value in [record.value for record in secured.records("t")]


# aiokafka leaves encrypted sockets open when it is refused.
@pytest.mark.parametrize("secured", [False], indirect=True, ids=["SASL_PLAINTEXT"])
@pytest.mark.parametrize("family", THAT_GIVE_UP)
def test_a_client_with_a_forged_token_is_refused(secured: EmbeddedBroker, family: Family) -> None:
    with pytest.raises(PermissionError):
        family(secured, lambda: signed(claims_of(), rsa_key("forger"), kid="rsa-1"), b"never")
    assert b"never" not in [record.value for record in secured.records("t")]
