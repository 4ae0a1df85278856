"""Callers that mean harm: injected headers, tricks with paths, bodies that trickle, schemas made to exhaust.

Frames of WebSockets are in test_gateway_websocket, messages of gRPC in test_gateway_grpc.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from threading import Thread

import pytest
from tests.integration.gateway_place import GatewayPlace, Reply, gateway_place, read_to_end

import ottla.blocking
import ottla.testing
from ottla.schemas.registry.records import version_record
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import Reference, SchemaText
from ottla.testing.embedded_broker import EmbeddedBroker

REGISTRY = "application/vnd.schemaregistry.v1+json"
VERSIONS = 10_000
BODY_TIMEOUT_S = 0.8


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings={"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, body_timeout_ms=int(BODY_TIMEOUT_S * 1000)) as place:
        yield place


def head_of(place: GatewayPlace, target: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: a", "Connection: close", *headers, "", ""]
    return place.raw("\r\n".join(lines).encode("latin-1"))


# ---- headers and paths


@pytest.mark.parametrize(
    "target",
    [
        "/topics/a%0d%0aSet-Cookie:%20x=1",
        "/consumers/g%0d%0aX-Evil:%201/instances/i%0d%0aX-Evil:%201/records",
        "/topics/known/partitions/0%0d%0aX-Evil:%201",
        "/subjects/%0d%0aX-Evil:%201/versions",
    ],
)
def test_a_line_break_in_a_path_is_no_header_of_the_answer(gateway: GatewayPlace, target: str) -> None:
    head = head_of(gateway, target).partition(b"\r\n\r\n")[0]
    names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
    assert b"content-length" in names
    assert not names & {b"x-evil", b"set-cookie"}


def test_what_a_caller_sends_comes_back_in_no_header(gateway: GatewayPlace) -> None:
    answer = head_of(gateway, "/topics", "X-Request-Id: a b<script>", "Origin: http://evil")
    head = answer.partition(b"\r\n\r\n")[0]
    assert b"script" not in head
    assert b"evil" not in head
    made = gateway.call("POST", "/consumers/g", {"name": "x"}, headers={"Host": "evil/%0d%0a"})
    assert b"\r\n" not in made.body


@pytest.mark.parametrize(
    "target",
    [
        "/topics/../brokers",
        "/topics/%2e%2e/partitions",
        "/topics/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/topics//partitions",
        "/topics/%00",
        "/topics/%c0%af",
        "/client.js/../../secret",
        "/topics/a%252e",
    ],
)
def test_tricks_with_a_path_lead_nowhere(gateway: GatewayPlace, target: str) -> None:
    status = int(head_of(gateway, target).split(b" ", 2)[1])
    assert status in (400, 404)


# ---- slow callers


def test_a_body_that_trickles_is_not_waited_for_and_others_are_served(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    broker.create_topic("slow")
    head = b"POST /topics/slow HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    callers = [gateway.connect() for _ in range(50)]
    answers: list[bytes] = []
    threads = [Thread(target=lambda each=each: answers.append(trickled(each, head))) for each in callers]
    for each in threads:
        each.start()
    assert gateway.call("GET", "/brokers").status == 200
    for each in threads:
        each.join()
    assert {answer.split(b" ", 2)[1] for answer in answers} == {b"408"}
    assert broker.records("slow") == []


def trickled(connection: socket.socket, head: bytes) -> bytes:
    """One byte after the other, for longer than a body may take."""
    with connection:
        connection.sendall(head)
        end = time.monotonic() + 3 * BODY_TIMEOUT_S
        try:
            while time.monotonic() < end:
                connection.sendall(b" ")
                time.sleep(BODY_TIMEOUT_S / 8)
        except ConnectionError:
            pass
        return read_to_end(connection)


# ---- schemas


def register(place: GatewayPlace, subject: str, schema: str, **fields: object) -> Reply:
    body = {"schema": schema, **fields}
    return place.call("POST", f"/subjects/{subject}/versions", body, content_type=REGISTRY)


def test_references_that_form_a_circle_are_refused(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    """No request can make one. A topic that was copied from elsewhere may have one."""
    assert gateway.call("GET", "/subjects").status == 200  # makes the topic
    texts = ('{"type":"record","name":"A","fields":[]}', '{"type":"record","name":"B","fields":[]}')
    circle = [
        StoredVersion(
            f"circle-{name}",
            1,
            9_000 + index,
            schema := SchemaText("AVRO", texts[index], (Reference(other, f"circle-{other}", 1),)),
            schema.digest,
        )
        for index, (name, other) in enumerate((("a", "b"), ("b", "a")))
    ]
    write(broker, circle)
    references = [{"name": "A", "subject": "circle-a", "version": 1}]
    refused = register(gateway, "in-circle", '["A"]', references=references)
    assert refused.error == (422, 42201)
    assert "circle" in refused.json["message"]
    assert gateway.call("GET", "/schemas/ids/9000").status == 200


def test_ten_thousand_versions_are_compared_and_others_are_served(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    gateway.call("GET", "/subjects")
    many = [
        StoredVersion("many-value", number, 10_000 + number, schema := versioned(number), schema.digest)
        for number in range(1, VERSIONS + 1)
    ]
    write(broker, many)
    assert len(gateway.call("GET", "/subjects/many-value/versions").json) == VERSIONS
    strict = {"compatibility": "FULL_TRANSITIVE"}
    gateway.call("PUT", "/config/many-value", strict, content_type=REGISTRY)
    replies: list[Reply] = []
    comparing = Thread(
        target=lambda: replies.append(register(gateway, "many-value", versioned(VERSIONS + 1).text))
    )
    comparing.start()
    while comparing.is_alive():
        assert gateway.call("GET", "/schemas/ids/10001").status == 200
    comparing.join()
    assert replies[0].json["version"] == VERSIONS + 1


def versioned(number: int) -> SchemaText:
    field = {"name": f"f{number}", "type": "long", "default": number}
    return SchemaText("AVRO", json.dumps({"type": "record", "name": "R", "fields": [field]}))


def test_regular_expressions_of_a_schema_are_never_run_by_the_registry(gateway: GatewayPlace) -> None:
    bomb = json.dumps({"type": "string", "pattern": "^(a+)+$", "default": "a" * 60 + "!"})
    assert register(gateway, "bomb", bomb, schemaType="JSON").status == 200
    other = json.dumps({"type": "string", "pattern": "^(a|aa)+$", "enum": ["a" * 60 + "!"]})
    assert register(gateway, "bomb", other, schemaType="JSON").status in (200, 409)


def write(broker: EmbeddedBroker, versions: list[StoredVersion]) -> None:
    """Records of the registry's topic, past the registry."""
    with ottla.blocking.Producer(broker.bootstrap) as producer:
        for each in versions:
            record = version_record(each)
            producer.send_soon("_schemas", record.value, record.key)
        producer.flush()
