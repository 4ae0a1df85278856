"""Kafka's own reassignment tool against a cluster: replicas move within a throttle (CTL-7)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.apache.kafka import fetch, run_tool
from bench.apache.maven import CannotFetchError

from ottla.localcluster.waiting import wait_until
from ottla.testing import EmbeddedCluster

DEADLINE_S = 60


def tool(cluster: EmbeddedCluster, name: str, *arguments: str) -> str:
    result = run_tool(name, *arguments, "--bootstrap-server", cluster.bootstrap)
    assert result.status == 0, result.everything
    return result.stdout


def topic_settings(cluster: EmbeddedCluster) -> str:
    return tool(cluster, "configs", "--describe", "--entity-type", "topics", "--entity-name", "moved")


def test_replicas_move_within_a_throttle_that_is_cleared_in_the_end(tmp_path: Path) -> None:
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    with EmbeddedCluster(2) as cluster:
        cluster.create_topic("moved", replication_factor=1)
        plan = tmp_path / "plan.json"
        wanted = [{"topic": "moved", "partition": 0, "replicas": [1, 2]}]
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        given = ("--reassignment-json-file", str(plan))
        begun = tool(cluster, "reassign-partitions", "--execute", "--throttle", "1000000", *given)
        assert "The inter-broker throttle limit was set to 1000000 B/s" in begun
        assert "leader.replication.throttled.replicas=" in topic_settings(cluster)

        def is_moved() -> bool:
            verified = tool(cluster, "reassign-partitions", "--verify", *given)
            return "Reassignment of partition moved-0 is completed" in verified

        wait_until(is_moved, "the replica is added", DEADLINE_S)
        assert "throttled.replicas" not in topic_settings(cluster)
