"""Confluent's serializers for Java with our registry: their data is ours, both ways, and a broker takes it: GTW-4.

They are not on Maven Central by themselves; Apache Pinot's plugin contains them, unmodified. For Avro only, with the
id in the prefix: the form with a GUID in a header came later.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.apache.maven import CACHE, CannotFetchError, fetch_jar
from tests.compat.test_gateway_grpc_clients import run
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.testing
from ottla.blocking import Producer
from ottla.serializers import AvroDeserializer, AvroSerializer, Registry
from ottla.testing.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.compat
PROGRAM = Path(__file__).parent / "gateway" / "java" / "AvroCaller.java"
PLUGIN = "org.apache.pinot:pinot-confluent-avro:1.5.0:jar:shaded"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
VALUE = {"id": 7, "item": "coffee"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap) as place:
        yield place


def test_javas_serializers_and_ours_read_each_other(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    if shutil.which("javac") is None:
        pytest.skip("NO JAVA COMPILER: Confluent's serializers for Java are not called")
    home = CACHE / "confluent-avro-java"
    try:
        jars = fetch_jar("Confluent's serializers for Java", home, PLUGIN)
    except CannotFetchError as error:
        pytest.skip(f"NO SERIALIZERS FOR JAVA: {error}")
    classes = home / "classes"
    run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(PROGRAM)])
    topic = broker.create_topic("java-orders", configs={"schema.validation": "true"})
    registry = Registry(gateway.gateway.url)
    ours = AvroSerializer(registry, ORDER, topic=topic)(VALUE)
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*:{classes}", "AvroCaller"]
    said = run([*command, gateway.gateway.url, topic, json.dumps(ORDER), ours.hex()])
    told = json.loads(said.splitlines()[-1])
    written = bytes.fromhex(told["written"])
    assert told["read"] == VALUE
    assert written == ours  # the same schema, so the same id
    assert AvroDeserializer(registry)(written) == VALUE
    assert registry.versions(f"{topic}-value") == [1]
    with Producer(broker.bootstrap) as producer:
        assert producer.send(topic, written).offset == 0
