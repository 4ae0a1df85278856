"""Metrics that clients push (KIP-714): librdkafka's own pushes, single requests, and `ottla clients`.

Requirements: OPS-2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from tests.integration.command_line import ottla_here
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.metrics_page import Metrics, get
from tests.integration.peer import Peer

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.log.files.uuids import uuid_text
from ottla.protocol.apis import CLIENT_METRICS_APIS, ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.client_telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)
from ottla.records.compression import Compression, compress

DEADLINE_S = 30.0
LATENCY = "org.apache.kafka.producer.node.request.latency.avg"
HTTP = {"ottla.http.listener": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("served") / "data", HTTP) as broker:
        yield broker


@pytest.fixture
def command(served: BrokerThread) -> Callable[..., Any]:
    """Runs a command to its end; with --json, answers what it printed."""

    def run(*arguments: str) -> Any:
        done = ottla_here(*arguments, bootstrap=f"127.0.0.1:{served.port}")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


def payload(**gauges: float) -> bytes:
    metrics = [
        pb.Metric(name=name, gauge=pb.Gauge(data_points=[pb.NumberDataPoint(as_double=value)]))
        for name, value in gauges.items()
    ]
    resource = pb.ResourceMetrics(scope_metrics=[pb.ScopeMetrics(metrics=metrics)])
    written: bytes = pb.MetricsData(resource_metrics=[resource]).SerializeToString()
    return written


def asked(peer: Peer, instance_id: UUID | None = None) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(instance_id or UUID(int=0))
    answer: GetTelemetrySubscriptionsResponse = peer.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)
    return answer


def pushed(
    peer: Peer, answer: GetTelemetrySubscriptionsResponse, metrics: bytes, **changed: Any
) -> ErrorCode:
    request = PushTelemetryRequest(answer.client_instance_id, answer.subscription_id, metrics=metrics)
    for name, value in changed.items():
        setattr(request, name, value)
    return ErrorCode(peer.ask(ApiKey.PUSH_TELEMETRY, 0, request).error_code)


def advertised(peer: Peer) -> set[int]:
    answer = peer.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"))
    return {each.api_key for each in answer.api_keys}


def test_librdkafka_pushes_what_a_subscription_asks_for(
    served: BrokerThread, command: Callable[..., Any]
) -> None:
    with Peer(served.port) as peer:
        assert not advertised(peer) & CLIENT_METRICS_APIS
        command("clients", "subscribe", "shops", "--interval", "200", "--match", "client_id=shop-.*")
        assert advertised(peer) >= CLIENT_METRICS_APIS
    # The line that librdkafka logs about its id is not ours.
    settings = {"bootstrap.servers": f"127.0.0.1:{served.port}", "client.id": "shop-1", "log_level": 3}
    producers = [confluent_kafka.Producer(settings)]
    found: list[dict[str, Any]] = []

    def has_pushed() -> bool:
        producers[0].produce("orders", b"one")
        producers[0].poll(0.05)
        found[:] = [each for each in command("clients", "list", "--json") if each["numbers"]]
        # The first push may come before the first answer to a produce request.
        return bool(found) and LATENCY in command("clients", "describe", "shop-1")

    wait_until(has_pushed, "the client has pushed", DEADLINE_S)
    assert found[0]["client_id"] == "shop-1"
    assert "rdkafka" in found[0]["software"]
    assert found[0]["subscriptions"] == ["shops"]
    (client,) = command("clients", "describe", "shop-1", "--json")
    names = {each["name"] for each in client["metrics"]}
    assert "org.apache.kafka.producer.connection.creation.total" in names
    shown = command(
        "clients", "describe", found[0]["instance_id"], "--metrics", "org.apache.kafka.producer.node"
    )
    assert LATENCY in shown
    assert "connection.creation" not in shown
    producers.pop().flush(10)  # its destructor pushes for the last time

    def has_ended() -> bool:
        return any(each["is_terminating"] for each in command("clients", "list", "--json"))

    wait_until(has_ended, "the client has said that it ends", DEADLINE_S)
    assert "has ended" in command("clients", "list")
    command("clients", "unsubscribe", "shops")
    assert "no subscriptions" in command("clients", "subscriptions")


def test_a_client_is_told_what_to_push_and_its_push_is_shown(
    served: BrokerThread, command: Callable[..., Any]
) -> None:
    command("clients", "subscribe", "every", "--metrics", "a,b", "--interval", "100000")
    with Peer(served.port) as peer:
        peer.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("peer", "1.5"))
        answer = asked(peer)
        assert (answer.error_code, answer.push_interval_ms) == (0, 100_000)
        assert answer.requested_metrics == ["a", "b"]
        assert answer.accepted_compression_types == [4, 3, 1, 2]
        assert not answer.delta_temporality
        assert asked(peer, answer.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        data = compress(Compression.ZSTD, payload(**{"a.x": 1.5, "a.y": float("nan")}))
        assert pushed(peer, answer, data, compression_type=4) is ErrorCode.NONE
        assert pushed(peer, answer, data, compression_type=4) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    name = uuid_text(answer.client_instance_id)
    (client,) = command("clients", "describe", name, "--json")
    assert client["software"] == "peer 1.5"
    found = [(each["name"], each["kind"], each["value"]) for each in client["metrics"]]
    assert found == [("a.x", "gauge", 1.5), ("a.y", "gauge", None)], "JSON has no NaN"
    assert served.broker.http_port
    page = get(served.broker.http_port, "/debug/clients").json
    (shown,) = [each for each in page["clients"] if each["client"]["instance_id"] == name]
    assert [each["name"] for each in shown["metrics"]] == ["a.x", "a.y"]
    metrics = Metrics(served.broker.http_port)
    assert metrics.counted("ottla_pushing_clients") >= 1
    assert metrics.counted("ottla_client_pushes_total") >= 1
    assert metrics.counted("ottla_client_pushes_refused_total") >= 1
    command("clients", "unsubscribe", "every")


def test_pushes_that_cannot_be_used_are_refused_with_their_error(served: BrokerThread) -> None:
    bomb = compress(Compression.GZIP, bytes(2 << 20))
    with Peer(served.port) as peer:
        for metrics, changed, error in (
            (b"", {"client_instance_id": UUID(int=0)}, ErrorCode.INVALID_REQUEST),
            (payload(a=1), {"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
            (payload(a=1), {"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            (bytes((1 << 20) + 1), {}, ErrorCode.TELEMETRY_TOO_LARGE),
            (b"\x0a\xff", {}, ErrorCode.INVALID_RECORD),
            (b"no gzip", {"compression_type": 1}, ErrorCode.INVALID_RECORD),
            (bomb, {"compression_type": 1}, ErrorCode.INVALID_RECORD),
            (b"", {}, ErrorCode.NONE),
        ):
            answer = asked(peer)
            assert pushed(peer, answer, metrics, **changed) is error, (changed, error)


def test_a_broker_that_wants_no_metrics_of_clients_says_so(tmp_path: Path) -> None:
    with (
        broker_thread(tmp_path / "data", {"ottla.client.metrics": "never"}) as broker,
        Peer(broker.port) as peer,
    ):
        assert not advertised(peer) & CLIENT_METRICS_APIS
        answer = asked(peer)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert pushed(peer, answer, b"") is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("describe", "nobody"), "no client 'nobody' has asked"),
        (("unsubscribe", "nothing"), "there is no subscription 'nothing'"),
        (("subscribe", "s", "--interval", "5"), "interval.ms cannot be '5'"),
        (("subscribe", "s", "--match", "client_id=("), "the regular expression is wrong"),
        (("subscribe", "s", "--match", "name=x"), "match cannot be 'name=x'"),
    ],
)
def test_a_wrong_command_is_answered_in_one_sentence(
    served: BrokerThread, arguments: tuple[str, ...], sentence: str
) -> None:
    done = ottla_here("clients", *arguments, bootstrap=f"127.0.0.1:{served.port}")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
