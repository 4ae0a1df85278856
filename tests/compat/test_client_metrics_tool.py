"""Kafka's own tool for client metrics, and a Java producer that pushes what a subscription asks for (KIP-714)."""

from __future__ import annotations

import json

import pytest
from bench.apache.kafka import fetch, run_tool
from bench.apache.maven import CannotFetchError
from tests.integration.command_line import ottla_here

import ottla.testing


def tool(bootstrap: str, *arguments: str) -> str:
    result = run_tool("client-metrics", "--bootstrap-server", bootstrap, *arguments)
    assert result.status == 0, result.everything
    return result.stdout


def test_javas_tool_subscribes_and_a_java_producer_pushes() -> None:
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    with ottla.testing.broker() as broker:
        broker.create_topic("orders")
        asked = ("--metrics", "org.apache.kafka.producer", "--interval", "300", "--match", "client_id=perf.*")
        tool(broker.bootstrap, "--alter", "--name", "shops", *asked)
        assert "shops" in tool(broker.bootstrap, "--list")
        described = tool(broker.bootstrap, "--describe", "--name", "shops")
        assert "interval.ms=300" in described
        load = ("--topic", "orders", "--num-records", "250", "--record-size", "10", "--throughput", "50")
        properties = (f"bootstrap.servers={broker.bootstrap}", "client.id=perf-1")
        done = run_tool("producer-perf-test", *load, "--producer-props", *properties)
        assert done.status == 0, done.everything
        (client,) = json.loads(
            ottla_here("clients", "describe", "perf-1", "--json", bootstrap=broker.bootstrap).stdout
        )
        assert client["software"].startswith("apache-kafka-java")
        assert client["pushes"] >= 2
        names = {each["name"]: each["value"] for each in client["metrics"]}
        assert "org.apache.kafka.producer.record.send.total" in names or any(
            "record" in name for name in names
        )
        tool(broker.bootstrap, "--delete", "--name", "shops")
        assert "shops" not in tool(broker.bootstrap, "--list")
