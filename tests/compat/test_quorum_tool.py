"""Kafka's own tool for the metadata quorum removes a voter and adds it again (CTL-5, KIP-853)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.apache.kafka import fetch, run_tool
from bench.apache.maven import CannotFetchError

from ottla.blocking import Admin
from ottla.testing import EmbeddedCluster


def tool(cluster: EmbeddedCluster, *arguments: str) -> str:
    result = run_tool("metadata-quorum", "--bootstrap-server", cluster.bootstrap, *arguments)
    assert result.status == 0, result.everything
    return result.stdout


def voters(cluster: EmbeddedCluster) -> list[int]:
    with Admin(cluster.bootstrap) as admin:
        return [each.node_id for each in admin.describe_quorum().voters]


def test_a_controller_is_removed_and_added(tmp_path: Path) -> None:
    try:
        fetch()
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TOOLS: {reason}")
    with EmbeddedCluster(3) as cluster:
        directory = _text_of(cluster, 3)
        tool(cluster, "remove-controller", "--controller-id", "3", "--controller-directory-id", directory)
        assert voters(cluster) == [1, 2]
        assert directory in tool(cluster, "describe", "--replication")
        settings = tmp_path / "controller.properties"
        settings.write_text(
            "process.roles=controller\nnode.id=3\ncontroller.listener.names=CONTROLLER\n"
            "controller.quorum.bootstrap.servers=localhost:1\n"
            f"listeners=CONTROLLER://127.0.0.1:{cluster.brokers[3].port}\n"
            f"log.dirs={cluster.brokers[3].data}\n"
        )
        tool(cluster, "--command-config", str(settings), "add-controller")
        assert voters(cluster) == [1, 2, 3]


def _text_of(cluster: EmbeddedCluster, node_id: int) -> str:
    """The id of a node's directory as Kafka writes it."""
    lines = (cluster.brokers[node_id].data / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))
