"""Metrics pushed to a collector: what arrives is what /metrics says, and a collector that is down costs nothing.

Requirements: OPS-2.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, batch, create_topic, produce

from ottla.config import BrokerConfig, ConfigError
from ottla.localcluster.ports import free_port
from ottla.localcluster.waiting import wait_until
from ottla.server.monitoring import otlp_push

DEADLINE_S = 30.0


class Collector:
    """A small HTTP server that takes pushes, and keeps what they say."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.paths: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.paths.append(self.path)
                collector.requests.append(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join(DEADLINE_S)
        self._server.server_close()

    def metrics(self) -> dict[str, Any]:
        """The metrics of the latest push, by name."""
        (resource,) = self.requests[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {each.name: each for each in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


def pushing(data: Path, url: str, interval_ms: str = "200") -> Any:
    return broker_thread(data, {"ottla.otlp.endpoint": url, "ottla.otlp.interval.ms": interval_ms})


def test_a_collector_gets_the_metrics_of_the_node(tmp_path: Path, collector: Collector) -> None:
    with pushing(tmp_path / "data", collector.url) as broker, Peer(broker.port) as peer:
        create_topic(peer, "orders")
        for _ in range(3):
            produce(peer, "orders", batch(b"a", b"b"))

        def has_arrived() -> bool:
            if not collector.requests:
                return False
            topics = collector.metrics().get("ottla_topic_records_in")
            return topics is not None and topics.sum.data_points[0].as_int == 6

        wait_until(has_arrived, "the records are counted", DEADLINE_S)
    metrics = collector.metrics()
    assert collector.paths[0] == "/v1/metrics"
    total = metrics["ottla_topic_records_in"].sum
    assert total.is_monotonic
    assert total.aggregation_temporality == 2, "cumulative"
    assert {each.key: each.value.string_value for each in total.data_points[0].attributes} == {
        "topic": "orders"
    }
    durations = {
        next(a.value.string_value for a in point.attributes): point
        for point in metrics["ottla_request_duration_seconds"].histogram.data_points
    }
    assert durations["PRODUCE"].count == 3
    assert sum(durations["PRODUCE"].bucket_counts) == 3
    assert len(durations["PRODUCE"].bucket_counts) == len(durations["PRODUCE"].explicit_bounds) + 1
    assert metrics["ottla_request_duration_seconds"].unit == "s"
    assert metrics["ottla_connections"].gauge.data_points
    assert not any(name.startswith("kafka_") for name in metrics)
    attributes = {
        each.key: each.value for each in collector.requests[-1].resource_metrics[0].resource.attributes
    }
    assert attributes["service.name"].string_value == "ottla"
    assert attributes["ottla.node.id"].int_value == 1


def test_a_collector_that_is_down_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_push, "_TIMEOUT_S", 0.2)
    caplog.set_level(logging.WARNING)
    with pushing(tmp_path / "data", f"http://127.0.0.1:{free_port()}", "60000") as broker:
        push = otlp_of(broker)
        for _ in range(2):
            sending = asyncio.run_coroutine_threadsafe(push.push(), broker._loop)
            assert sending.result(DEADLINE_S) is False
        with Peer(broker.port) as peer:
            create_topic(peer, "orders")
            assert produce(peer, "orders", batch(b"a")).error_code == 0
    told = [each for each in caplog.records if "does not take metrics" in each.getMessage()]
    assert len(told) == 1
    assert not any(each.name.startswith("opentelemetry") for each in caplog.records)


def otlp_of(broker: BrokerThread) -> Any:
    return broker.broker._otlp


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://localhost", "http://"])
def test_what_is_no_url_is_refused_in_one_sentence(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^ottla\.otlp\.endpoint cannot be"):
        BrokerConfig.from_properties({"ottla.otlp.endpoint": url})
