from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.cluster.status import as_document, condition_words, headlines
from ottla.cli.main import ottla
from ottla.client.requests.quorum import QuorumDescription
from ottla.localcluster.state import BrokerState, ClusterState, Condition
from ottla.localcluster.status import BrokerStatus, ClusterStatus, PartitionStatus

DATA = Path("/c")
STATE = ClusterState(
    "c", "127.0.0.1", (1, 2, 3), tuple(BrokerState(n, 1, 1, condition=Condition.RUNNING) for n in (1, 2, 3))
)
PROCESS = BrokerState(1, 9092, 9092, condition=Condition.RUNNING, pid=11)
BROKER = BrokerStatus(1, "h:1", None, PROCESS, False, True, 0, 0, 0, 0, 0)
QUORUM = QuorumDescription(1, 3, 100, (), ())
WELL = ClusterStatus("c", 1, QUORUM, (BROKER,), ())


def partition(leader: int | None, isr: tuple[int, ...]) -> PartitionStatus:
    return PartitionStatus("t", 0, leader, 0, (1, 2), isr, {})


def test_a_cluster_that_is_well_has_one_line() -> None:
    assert headlines(WELL, STATE, DATA, []) == [
        "Cluster c: controller 1, epoch 3, metadata at 100, 1 brokers, 0 partitions"
    ]


def test_every_trouble_has_its_line() -> None:
    troubled = replace(
        WELL,
        quorum=None,
        controller_id=None,
        problem="No broker answers: refused",
        partitions=(partition(None, (1,)), partition(1, (1,)), partition(1, (1, 2))),
        brokers=(replace(BROKER, is_fenced=True),),
    )
    killed = replace(STATE.broker(1), condition=Condition.KILLED)
    lost = STATE.with_broker(killed).with_broker(replace(killed, node_id=2))
    said = "\n".join(headlines(troubled, lost, DATA, ["1 -/- 2"]))
    assert "controller -" in said
    assert "No broker answers: refused" in said
    assert "The quorum is lost: voters 1 and 2" in said
    assert "The network is broken: 1 -/- 2" in said
    assert "Fenced, so not in use: broker 1" in said
    assert "Without a leader, so neither read nor written: 1 partition" in said
    assert "With replicas that are not in sync: 1 partition" in said


def test_a_quorum_without_a_leader_is_told_where_no_supervisor_knows_why() -> None:
    said = headlines(replace(WELL, quorum=replace(QUORUM, leader_id=None)), None, DATA, [])
    assert said[1].startswith("The quorum has no leader")


@pytest.mark.parametrize(
    ("broker", "words"),
    [
        (BROKER, "running (11)"),
        (replace(BROKER, is_fenced=True), "running (11), fenced"),
        (replace(BROKER, process=replace(PROCESS, condition=Condition.DIED, pid=None)), "died"),
        (replace(BROKER, process=None), "in use"),
        (replace(BROKER, process=None, is_fenced=True), "fenced"),
    ],
)
def test_a_broker_is_told_by_its_process_and_by_what_the_controller_thinks(
    broker: BrokerStatus, words: str
) -> None:
    assert condition_words(broker) == words


def test_programs_get_everything_as_json() -> None:
    document = json.loads(json.dumps(as_document(WELL, STATE, ["1 -/> 2"])))
    assert document["brokers"][0]["pid"] == 11
    assert document["brokers"][0]["condition"] == "running"
    assert document["has_quorum"] is True
    assert document["cuts"] == ["1 -/> 2"]


@pytest.mark.parametrize("command", [["status"], ["kill", "1"], ["down"], ["stop", "--all"], ["heal"]])
def test_where_no_cluster_is_every_command_says_so(command: list[str], tmp_path: Path) -> None:
    shown = CliRunner().invoke(ottla, ["cluster", *command, "--data", str(tmp_path)])
    assert shown.exit_code == 1
    assert f"There is no cluster in {tmp_path}" in shown.output


def test_stop_wants_one_broker_or_all(tmp_path: Path) -> None:
    for arguments in ([], ["1", "--all"]):
        shown = CliRunner().invoke(ottla, ["cluster", "stop", *arguments, "--data", str(tmp_path)])
        assert shown.exit_code == 2
        assert "name one broker, or give --all" in shown.output
