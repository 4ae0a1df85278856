"""Schemathesis reads /openapi.json and calls the gateway as it says: no answer is other than described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.integration.gateway_place import DEADLINE_S, gateway_place

import ottla.testing

# Answers without an end; and a body that is a stream of objects, which no JSON Schema describes.
LEFT_OUT = (
    "/topics/{topic}/events",
    "/v3/clusters/{cluster_id}/topics/{topic_name}/records",
    "/ws",
    "/consume",
)
EXAMPLES = 1
CHECKS = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap, max_wait_ms=50) as place:
        yield f"http://127.0.0.1:{place.port}"


def operations(address: str) -> list[Any]:
    schema: Any = schemathesis.openapi.from_url(f"{address}/openapi.json")
    found = [each.ok() for each in schema.get_all_operations()]
    return [each for each in found if each.path not in LEFT_OUT]


# Schemathesis itself draws from `random` in its strategies.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
def test_every_operation_answers_as_it_is_described(address: str) -> None:
    called = operations(address)
    assert len(called) > 60
    for operation in called:

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            response = case.call(base_url=address, timeout=DEADLINE_S)
            if response.status_code == 501:  # v3's answer to what a gateway does not do
                return
            case.validate_response(response, checks=CHECKS)

        call()
