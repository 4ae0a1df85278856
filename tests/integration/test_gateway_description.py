"""OpenAPI and the page about the routes are those of the gateway that serves them: GTW-1."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.testing
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.openapi import openapi
from ottla.gateway.http.machine.routes import Route


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayPlace]:
    with ottla.testing.broker() as broker:
        broker.create_topic("known")
        with gateway_place(broker.bootstrap, max_wait_ms=10, default_wait_ms=0, max_instances=3) as place:
            yield place


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_described(gateway: GatewayPlace) -> None:
    document = gateway.call("GET", "/openapi.json").json
    assert document["openapi"].startswith("3.1")
    described = {(method, path) for method, path, _ in operations(document)}
    assert described == {(each.method, each.path) for each in gateway.gateway.routes}
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    for _, path, operation in operations(document):
        named = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.sampled_from(["", "known", "earliest", "x" * 50]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["topics", "partitions", "offsets", "records", "topic", "partition", "offset", "value", "key"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(data=st.data())
def test_every_answer_has_a_status_that_the_description_names(
    gateway: GatewayPlace, data: st.DataObject
) -> None:
    """Any parameters and bodies: what is not refused is answered, and nothing is answered with 500."""
    document = openapi(gateway.gateway.routes, "")
    method, path, operation = data.draw(st.sampled_from(operations(document)))
    if path.endswith("/events"):
        return  # an answer without an end
    names = st.sampled_from(["known", "0", "none", "%2e%2e", "a%20b"])
    target = re.sub(r"\{\w+\}", lambda _: data.draw(names), path)
    query = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    values = st.sampled_from(["0", "1", "-1", "earliest", "latest", "", "99999999999999999999"])
    chosen = [f"{each['name']}={data.draw(values)}" for each in query if data.draw(st.booleans())]
    body, content_type = None, ""
    if "requestBody" in operation:
        content_type = data.draw(st.sampled_from(sorted(operation["requestBody"]["content"])))
        body = json.dumps(data.draw(JSON_VALUES)).encode()
    reply = gateway.call(
        method, f"{target}?{'&'.join(chosen)}" if chosen else target, body, content_type=content_type
    )
    assert str(reply.status) in operation["responses"], (method, target, body, reply)
    if reply.status >= 400:
        assert reply.json.keys() <= {"error_code", "message", "kafka_error"}


def test_the_page_for_people_loads_nothing(gateway: GatewayPlace) -> None:
    page = gateway.call("GET", "/docs")
    text = page.body.decode()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert all(route.path in text for route in gateway.gateway.routes)
    assert re.findall(r"(?:src|href)\s*=\s*[\"']?([^\"'>\s]+)", text) == ["/openapi.json"]
    assert "<script" not in text
    assert gateway.call("GET", "/").json["docs"] == "/docs"
    script = gateway.call("GET", "/client.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert b"export class OttlaSocket" in script.body


def test_a_route_of_another_room_is_described_as_well() -> None:
    async def answer(request: Request) -> Answer:
        return Answer()

    route = Route(
        "PUT", "/subjects/{subject}", answer, "A subject.", "schemas", body="required", problems=(404, 409)
    )
    operation = openapi([route], "1")["paths"]["/subjects/{subject}"]["put"]
    assert operation["requestBody"]["required"] is True
    assert {"200", "404", "409", "413", "415"} <= operation["responses"].keys()
