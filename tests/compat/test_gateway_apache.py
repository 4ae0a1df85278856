"""The gateway in front of Apache Kafka: it speaks to a cluster as any client does, so each of its doors works there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from bench.apache.kafka import start_apache_kafka
from bench.apache.maven import CannotFetchError
from tests.integration.gateway_place import GatewayPlace, gateway_place
from tests.integration.grpc_stubs import stubs
from tests.integration.web_socket_caller import calling

pytestmark = pytest.mark.compat
AVRO_V2 = "application/vnd.kafka.avro.v2+json"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayPlace]:
    data: Path = tmp_path_factory.mktemp("apache") / "data"
    try:
        broker = start_apache_kafka(data)
    except CannotFetchError as error:
        pytest.skip(f"NO APACHE KAFKA: {error}")
    try:
        with gateway_place(
            f"127.0.0.1:{broker.port}", grpc_listen="127.0.0.1:0", cluster_timeout_ms=60_000
        ) as place:
            yield place
    finally:
        broker.stop()


def test_rest_produces_and_reads_as_a_member_of_a_group(gateway: GatewayPlace) -> None:
    """The topic comes into being: Apache Kafka creates topics by itself."""
    gateway.produce("apache-rest", {"drink": "coffee"}, {"drink": "tea"})
    path = gateway.instance("apache-readers")
    gateway.call("POST", f"{path}/subscription", {"topics": ["apache-rest"]})
    found: list[object] = []
    while len(found) < 2:
        reply = gateway.call("GET", f"{path}/records?timeout=20000")
        assert reply.status == 200, reply.body
        found += [each["value"] for each in reply.json]
    assert found == [{"drink": "coffee"}, {"drink": "tea"}]
    assert gateway.call("POST", f"{path}/offsets").status == 204
    asked = {"partitions": [{"topic": "apache-rest", "partition": 0}]}
    committed = gateway.call("GET", f"{path}/offsets", asked, content_type="application/json")
    assert committed.json["offsets"][0]["offset"] == 2
    assert gateway.call("DELETE", path).status == 204


def test_the_registry_and_values_by_schema_work(gateway: GatewayPlace) -> None:
    gateway.produce("apache-avro", "made by a first record")
    body = {"value_schema": '"string"', "records": [{"value": "by schema"}]}
    sent = gateway.call("POST", "/topics/apache-avro", body, content_type=AVRO_V2)
    assert sent.status == 200, sent.body
    path = "/topics/apache-avro/partitions/0/records?from=1&decode=schema&wait=20000"
    assert gateway.call("GET", path).json["records"][0]["value"] == "by schema"
    assert gateway.call("GET", "/subjects").json == ["apache-avro-value"]


def test_a_web_socket_hears_what_is_produced(gateway: GatewayPlace) -> None:
    gateway.produce("apache-socket", 1, 2)
    with calling(gateway.port) as caller:
        caller.say(type="subscribe", topics=["apache-socket"], group_id="apache-web", offset_reset="earliest")
        assert [each["value"] for each in caller.messages(2)] == [1, 2]


def test_grpc_produces_and_subscribes(gateway: GatewayPlace) -> None:
    pb, services = stubs()
    with grpc.insecure_channel(f"127.0.0.1:{gateway.gateway.grpc_port}") as channel:
        asked = pb.ProduceRequest(topic="apache-grpc", records=[pb.Record(value=b"one")])
        assert services.ProducerServiceStub(channel).Produce(asked, timeout=60).outcomes[0].offset == 0
        wanted = pb.SubscribeRequest(topics=["apache-grpc"], offset_reset=pb.OFFSET_RESET_EARLIEST)
        stream = services.ConsumerServiceStub(channel).Subscribe(wanted, timeout=60)
        assert next(stream).value == b"one"
        stream.cancel()
