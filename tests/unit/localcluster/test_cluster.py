from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.localcluster import cluster as module
from ottla.localcluster.cluster import AddedBroker, LocalCluster, ProcessOutcome
from ottla.localcluster.control import NotRunningError
from ottla.localcluster.state import BrokerState, ClusterError, ClusterState, Condition
from ottla.localcluster.state_file import write_state

BROKERS = (
    BrokerState(1, 10_001, 20_001, condition=Condition.RUNNING, pid=71),
    BrokerState(2, 10_002, 20_002, condition=Condition.KILLED),
)
STATE = ClusterState("c", "127.0.0.1", (1, 2), BROKERS)


class Supervisor:
    """Answers as a supervisor would, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: Any = {}

    def __call__(self, data: Path, command: str, **arguments: Any) -> Any:
        self.asked.append((command, arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    made = Supervisor()
    monkeypatch.setattr(module, "ask_supervisor", made)
    return made


def test_a_cluster_is_described_by_its_file(tmp_path: Path) -> None:
    write_state(tmp_path, STATE)
    cluster = LocalCluster(tmp_path)
    assert (cluster.ids, cluster.running) == ([1, 2], [1])
    assert (cluster.port_of(1), cluster.pid_of(1)) == (20_001, 71)
    assert cluster.bootstrap == "127.0.0.1:20001,127.0.0.1:20002"
    assert cluster.directory_of(2) == tmp_path / "broker-2"
    with pytest.raises(ClusterError, match="Broker 2 has no process: it is killed"):
        cluster.pid_of(2)


def test_a_directory_without_a_cluster_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="There is no cluster in"):
        _ = LocalCluster(tmp_path).state


def test_signals_answer_with_the_process_and_a_lost_quorum(tmp_path: Path, supervisor: Supervisor) -> None:
    supervisor.answer = {"pid": 71, "quorum": "The quorum is lost."}
    assert LocalCluster(tmp_path).kill(1) == ProcessOutcome(71, "The quorum is lost.")
    supervisor.answer = {"pid": 71, "has_stopped": False, "quorum": None}
    assert LocalCluster(tmp_path).stop_broker(1) == ProcessOutcome(71, None, has_stopped=False)
    assert supervisor.asked == [("kill", {"broker": 1}), ("stop", {"broker": 1})]


def test_a_broker_that_does_not_become_ready_is_an_error(tmp_path: Path, supervisor: Supervisor) -> None:
    supervisor.answer = {"pid": 71, "broker": 3, "problem": "Broker 3 ended with exit status 2."}
    cluster = LocalCluster(tmp_path)
    for start in (lambda: cluster.start_broker(3), lambda: cluster.add_broker("a")):
        with pytest.raises(ClusterError, match="exit status 2"):
            start()
    supervisor.answer = {"pid": 71, "broker": 3, "problem": None}
    assert cluster.start_broker(3, wait=False) == 71
    assert cluster.add_broker() == AddedBroker(3, 71)


def test_faults_of_the_network_answer_with_what_is_in_force(tmp_path: Path, supervisor: Supervisor) -> None:
    cluster = LocalCluster(tmp_path)
    supervisor.answer = {"cuts": ["1 -/- 2"], "ended": 3}
    assert cluster.cut(1, 2, one_way=True) == cluster.slow(1, 50) == cluster.heal(2) == cluster.cuts()
    assert cluster.reset(1) == 3
    assert supervisor.asked[:3] == [
        ("cut", {"broker": 1, "other": 2, "one_way": True, "clients": False}),
        ("slow", {"broker": 1, "other": None, "ms": 50}),
        ("heal", {"broker": 2}),
    ]


def test_down_says_that_nothing_runs_unless_there_are_orphans(tmp_path: Path, supervisor: Supervisor) -> None:
    write_state(tmp_path, STATE)
    assert LocalCluster(tmp_path).down() == []
    supervisor.answer = NotRunningError("The cluster is not running.")
    with pytest.raises(NotRunningError):
        LocalCluster(tmp_path).down()
