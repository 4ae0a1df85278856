"""Metrics and health of a cluster whose brokers go: the pages of the others say what is missing (OPS-2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clusters import ObservedCluster, eventually, observed_cluster
from tests.integration.metrics_page import Metrics, Page, get, http_port_in

ISR = "kafka_topic_partition_in_sync_replica"
UNDER = "kafka_topic_partition_under_replicated_partition"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ObservedCluster]:
    settings = {"ottla.http.listener": "127.0.0.1:0", "replica.lag.time.max.ms": "2000"}
    with observed_cluster(tmp_path, settings=settings) as started:
        yield started


def port_of(cluster: ObservedCluster, node_id: int) -> int:
    return http_port_in(cluster.broker_said(node_id))


def health(cluster: ObservedCluster, node_id: int, what: str = "cluster") -> Page:
    return get(port_of(cluster, node_id), f"/health/{what}")


def total(cluster: ObservedCluster, nodes: list[int], name: str, **labels: Any) -> float:
    return sum(Metrics(port_of(cluster, node)).counted(name, **labels) for node in nodes)


def test_a_killed_broker_is_seen_in_metrics_and_health_and_a_lost_quorum_as_well(
    cluster: ObservedCluster,
) -> None:
    cluster.create_topic("orders", 6)
    everybody = [1, 2, 3]
    eventually(lambda: health(cluster, 1).status == 200, "all replicas are in sync")
    assert total(cluster, everybody, "kafka_server_replicamanager_leadercount") == 6
    assert total(cluster, everybody, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert total(cluster, everybody, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert all(health(cluster, node, "ready").status == 200 for node in everybody)

    cluster.kill(3)
    left = [1, 2]
    name = "kafka_server_replicamanager_underreplicatedpartitions"
    eventually(lambda: total(cluster, left, name) == 6, "all six partitions miss a replica")
    assert total(cluster, left, "kafka_server_replicamanager_leadercount") == 6
    assert total(cluster, left, "ottla_cluster_brokers_fenced") == 2
    seen = [Metrics(port_of(cluster, node)) for node in left]
    assert sum(len(each.labels(UNDER)) for each in seen) == 6
    assert sum(each.counted(UNDER, topic="orders", partition=p) for each in seen for p in range(6)) == 6
    assert sum(each.counted(ISR, topic="orders", partition=p) for each in seen for p in range(6)) == 12
    found = health(cluster, 1)
    assert (found.status, found.json["status"]) == (503, "degraded")
    assert any(reason.startswith("Broker 3 does not answer") for reason in found.json["reasons"])
    assert any("6 partitions (orders-" in reason for reason in found.json["reasons"])
    assert health(cluster, 1, "live").status == health(cluster, 1, "ready").status == 200

    cluster.kill(2)
    eventually(lambda: health(cluster, 1).json["status"] == "unavailable", "there is no controller")
    reasons = health(cluster, 1).json["reasons"]
    assert any("1 of 3 voters answer, 2 are needed" in reason for reason in reasons), reasons
    assert health(cluster, 1, "ready").status == 503
    assert health(cluster, 1, "live").status == 200

    cluster.start_broker(2, wait=False)
    cluster.start_broker(3)
    eventually(lambda: health(cluster, 1).status == 200, "everything is in sync again", 60.0)
    assert Metrics(port_of(cluster, 1)).counted("ottla_quorum_elections_total") >= 2
