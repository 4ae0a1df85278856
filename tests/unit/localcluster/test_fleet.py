from __future__ import annotations

from pathlib import Path

from ottla.localcluster.fleet import broker_command
from ottla.localcluster.state import BrokerState, ClusterState


def test_a_broker_of_a_cluster_runs_by_the_command_that_users_type() -> None:
    state = ClusterState("c", "127.0.0.1", (1,), (BrokerState(1, 9092, 9092), BrokerState(2, 9093, 9093)))
    command = broker_command(Path("/c"), state, state.brokers[1])
    assert command[1:4] == ["-m", "ottla.cli.main", "serve"]
    assert "node.id=2" in command
