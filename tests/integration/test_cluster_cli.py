"""`ottla cluster` as a person uses it: real brokers, commands from another terminal, words when something is
wrong (OPS-1).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.clusters import ObservedCluster, eventually, observed_cluster

from ottla.cli.main import ottla
from ottla.localcluster.process_identity import process_started
from ottla.localcluster.state import Condition
from ottla.localcluster.state_file import read_state
from ottla.localcluster.waiting import wait_until

COMMAND = [sys.executable, "-m", "ottla.cli.main", "cluster"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedCluster]:
    """Three brokers behind a proxy; every test leaves them as it found them."""
    data = tmp_path_factory.mktemp("cluster")
    with observed_cluster(data, has_proxy=True, racks=["a", "b", "c"]) as cluster:
        cluster.create_topic("orders", 6)
        yield cluster


def told(data: Path, *arguments: str, status: int = 0) -> str:
    """What a command says."""
    shown = CliRunner().invoke(ottla, ["cluster", *arguments, "--data", str(data)])
    assert shown.exit_code == status, shown.output
    return shown.output


def status_of(cluster: ObservedCluster) -> Any:
    return json.loads(told(cluster.data, "status", "--json"))


@contextlib.contextmanager
def brought_up(data: Path, *options: str) -> Iterator[ObservedCluster]:
    """A cluster that `ottla cluster up` runs, ready; the command ends with its standard input."""
    command = [*COMMAND, "up", "--data", str(data), "--until-eof", *options]
    data.mkdir(exist_ok=True)
    with (data / "up.output").open("wb") as sink:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "The cluster is ready" in up_said(data), "the cluster is ready", 60.0)
        yield ObservedCluster(data)
    finally:
        process.communicate(timeout=60)


def up_said(data: Path) -> str:
    """What `ottla cluster up` has printed."""
    return (data / "up.output").read_text()


def supervisor_of(cluster: ObservedCluster) -> int:
    supervisor = cluster.state.supervisor
    assert supervisor is not None
    return supervisor.pid


def is_gone(pid: int) -> bool:
    return process_started(pid) is None


def test_status_shows_leaders_replicas_lag_and_the_controller(shared: ObservedCluster) -> None:
    document = status_of(shared)
    assert document["controller_id"] in (1, 2, 3)
    assert document["has_quorum"] is True
    assert [each["leads"] for each in document["brokers"]] == [2, 2, 2]
    assert [each["replicas"] for each in document["brokers"]] == [6, 6, 6]
    assert [each["in_sync"] for each in document["brokers"]] == [6, 6, 6]
    assert [each["replica_lag"] for each in document["brokers"]] == [0, 0, 0]
    assert [each["rack"] for each in document["brokers"]] == ["a", "b", "c"]
    table = told(shared.data, "status", "--partitions")
    assert f"controller {document['controller_id']}" in table
    assert re.search(r"orders-5 +3 ", table)


def test_status_shows_the_load_of_every_broker(shared: ObservedCluster) -> None:
    """CTL-8: CPU, memory, disk, bytes and records per second, and what was refused."""
    loads = [
        {name: float(value) for name, value in each["load"].items()} for each in status_of(shared)["brokers"]
    ]
    assert len(loads) == 3
    for load in loads:
        assert load["cpu.percent"] >= 0
        assert load["resident.bytes"] > 1 << 20
        assert load["disk.free.bytes"] > 0
        assert load["in.bytes.per.second"] > 0, "brokers ask each other all the time"
        assert load["out.bytes.per.second"] > 0
        assert load["in.messages.per.second"] >= 0
        assert (load["refused.connections"], load["failed.logins"]) == (0, 0)
    heading = next(line for line in told(shared.data, "status").splitlines() if "cpu %" in line)
    for column in ("MiB", "free GiB", "in KiB/s", "out KiB/s", "records/s"):
        assert column in heading


def test_the_doctor_examines_every_broker_of_a_cluster(
    shared: ObservedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs this may have little room left: of that the doctor would warn, and rightly.
    roomy = shutil.disk_usage(shared.data)._replace(total=100 << 30, used=50 << 30, free=50 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: roomy)
    shown = CliRunner().invoke(ottla, ["doctor", "--data", str(shared.data)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("All is well.") == 3


def test_a_killed_broker_is_seen_and_can_be_started_again(shared: ObservedCluster) -> None:
    pid = shared.pid_of(2)
    assert told(shared.data, "kill", "2") == f"Killed broker 2 (process {pid}).\n"
    assert is_gone(pid)
    eventually(lambda: all(each["leader"] != 2 for each in status_of(shared)["partitions"]), "others lead")
    said = told(shared.data, "status")
    assert "killed" in said
    assert "With replicas that are not in sync: 6 partitions" in said
    assert "Fenced, so not in use: broker 2" in said
    assert "Broker 2 has no process: it is killed." in told(shared.data, "pause", "2", status=1)
    assert told(shared.data, "start", "2") == "Broker 2 started.\n"
    assert "runs already" in told(shared.data, "start", "2", status=1)
    shared.await_in_sync("orders")


def test_a_stopped_broker_hands_over_and_says_so(shared: ObservedCluster) -> None:
    pid = shared.pid_of(3)
    assert told(shared.data, "stop", "3") == f"Stopped broker 3 (process {pid}).\n"
    assert shared.state.broker(3).exit_status == 0
    assert 3 not in [view.leader for view in shared.partitions("orders").values()]
    told(shared.data, "start", "3")
    shared.await_in_sync("orders")


def test_without_a_majority_of_voters_everybody_hears_who_is_missing(shared: ObservedCluster) -> None:
    told(shared.data, "pause", "1")
    assert status_of(shared)["has_quorum"] is True
    said = told(shared.data, "kill", "2")
    sentence = "The quorum is lost: voters 1 and 2 are not at work, and 2 of 3 must be."
    assert sentence in said
    assert f"ottla cluster resume 1 --data {shared.data}" in said
    assert sentence in told(shared.data, "status")
    assert sentence in shared.said()
    assert status_of(shared)["missing_voters"] == [1, 2]
    told(shared.data, "resume", "1")
    told(shared.data, "start", "2")
    shared.await_in_sync("orders")


def test_a_broker_that_ends_by_itself_is_shown_with_its_last_words(shared: ObservedCluster) -> None:
    os.kill(shared.pid_of(3), signal.SIGABRT)
    wait_until(lambda: shared.state.broker(3).condition == Condition.DIED, "its death is noted")
    assert "Broker 3 was ended by SIGABRT. Its last words:" in shared.said()
    assert "ottla" in shared.said().partition("last words:")[2]
    assert "died" in told(shared.data, "status")
    told(shared.data, "start", "3")
    shared.await_in_sync("orders")


def test_a_network_that_is_cut_is_shown_and_heals(shared: ObservedCluster) -> None:
    assert "1 -/- 2; 1 -/- 3" in told(shared.data, "partition", "1")
    assert "The network is broken: 1 -/- 2; 1 -/- 3" in told(shared.data, "status")
    assert "The network is whole." in told(shared.data, "heal")
    assert "2 -/> 3" in told(shared.data, "partition", "2", "--from", "3", "--one-way")
    assert "+50 ms" in told(shared.data, "partition", "1", "--slow", "50")
    assert "Still broken: clients -> 1" in told(shared.data, "heal", "2").replace("2 -/> 3; ", "")
    told(shared.data, "heal")
    assert "cut off from itself" in told(shared.data, "partition", "1", "--from", "1", status=1)
    assert "no broker 9" in told(shared.data, "partition", "9", status=1)
    shared.await_in_sync("orders")


def test_a_directory_belongs_to_one_cluster(shared: ObservedCluster) -> None:
    said = told(shared.data, "up", status=1)
    assert f"{shared.data} belongs to a cluster that runs (supervisor: process " in said


def test_a_broker_that_is_added_can_be_given_its_share_and_drained_again(shared: ObservedCluster) -> None:
    assert "Added broker 4" in told(shared.data, "add", "--rack", "a")
    plan = told(shared.data, "rebalance", "--dry-run")
    assert "orders-" in plan
    said = told(shared.data, "rebalance", "--throttle", "10000000")
    assert "partitions" in said.splitlines()[-1]
    assert status_of(shared)["brokers"][3]["replicas"] > 0
    assert (
        told(shared.data, "rebalance", "--dry-run")
        == "Replicas are spread evenly: there is nothing to move.\n"
    )
    assert "Removed broker 4." in told(shared.data, "drain", "4", "--remove")
    assert [each["node_id"] for each in status_of(shared)["brokers"]] == [1, 2, 3]
    shared.await_in_sync("orders")


def test_draining_says_why_it_cannot(shared: ObservedCluster) -> None:
    said = told(shared.data, "drain", "1", status=1)
    assert "orders-" in said
    assert "add a broker" in said
    assert "Nothing was being moved." in told(shared.data, "rebalance", "--cancel")


def test_brokers_can_be_detached_and_taken_down_from_elsewhere(tmp_path: Path) -> None:
    data = tmp_path / "c"
    done = subprocess.run(
        [*COMMAND, "up", "--data", str(data), "--brokers", "1", "--port", "0", "--detach"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert re.fullmatch(r"The cluster is ready: 1 broker at 127\.0\.0\.1:\d+, data in .*\n", done.stdout)
    state = read_state(data)
    assert state is not None
    assert state.supervisor is not None
    pids = [state.supervisor.pid, state.brokers[0].pid or 0]
    assert "needs" not in told(data, "status")
    assert "start the cluster with --proxy" in told(data, "partition", "1", status=1)
    assert "The cluster is stopped." in told(data, "down")
    wait_until(lambda: all(map(is_gone, pids)), "everything has ended")
    assert "is not running" in told(data, "down", status=1)
    assert "is not running" in told(data, "status", status=1)


def test_detached_brokers_that_cannot_start_are_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*COMMAND, "up", "--data", str(tmp_path / "c"), "--brokers", "1", "--port", str(port)]
        done = subprocess.run([*command, "--detach"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: The cluster did not start: Broker 1 cannot start: port {port} of 127.0.0.1 is in use: "
        "choose another with --port, or 0 for any that are free.\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_broker_is_left_behind_when_up_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    with brought_up(tmp_path / "c", "--brokers", "2", "--port", "0") as cluster:
        pids = [cluster.pid_of(1), cluster.pid_of(2)]
        os.kill(supervisor_of(cluster), number)
        wait_until(lambda: all(map(is_gone, pids)), "all brokers have ended")
    assert [each.exit_status for each in cluster.state.brokers] == [0, 0]
    assert up_said(cluster.data).endswith("Stopping.\n")


def test_up_that_is_ended_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "c"
    command = [*COMMAND, "up", "--data", str(data), "--brokers", "2", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:

        def has_begun() -> bool:
            state = read_state(data)
            return state is not None and state.brokers[0].pid is not None

        wait_until(has_begun, "the first broker is started")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    state = read_state(data)
    assert state is not None
    assert not any(each.condition.has_process for each in state.brokers)


def test_brokers_whose_supervisor_was_killed_are_found_and_ended(tmp_path: Path) -> None:
    with brought_up(tmp_path / "c", "--brokers", "2", "--port", "0") as cluster:
        os.kill(supervisor_of(cluster), signal.SIGKILL)
    data = str(cluster.data)
    assert "its brokers 1 and 2 still run" in told(cluster.data, "up", status=1)
    assert "stopped the brokers that it left: 1 and 2" in told(cluster.data, "down")
    assert not any(each.condition.has_process for each in cluster.state.brokers)
    assert f"ottla cluster up --data {data}" in told(cluster.data, "kill", "1", status=1)


def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = told(tmp_path / "c", "up", "--port", str(port), status=1)
    assert f"Broker 1 cannot start: port {port} of 127.0.0.1 is in use: choose another with --port" in said
    assert not list((tmp_path / "c").glob("broker-*"))


def test_a_broker_that_cannot_start_is_shown_with_its_last_words(tmp_path: Path) -> None:
    said = told(
        tmp_path / "c", "up", "--brokers", "1", "--port", "0", "--set", "num.partitions=many", status=1
    )
    assert "Broker 1 ended with exit status 2. Its last words:" in said
    assert "num.partitions cannot be 'many'" in said


def test_a_cluster_comes_back_as_it_was_with_what_it_held(tmp_path: Path) -> None:
    with observed_cluster(tmp_path / "c") as cluster:
        cluster.create_topic("kept", 3)
        before = [(each.node_id, each.port) for each in cluster.state.brokers]
    begun = time.monotonic()
    with brought_up(cluster.data):
        assert cluster.running == [1, 2, 3]
        cluster.await_in_sync("kept")
        assert [(each.node_id, each.port) for each in cluster.state.brokers] == before
    assert time.monotonic() - begun < 60


def test_five_brokers_are_as_easy_as_three(tmp_path: Path) -> None:
    with observed_cluster(tmp_path / "c", brokers=5) as cluster:
        assert cluster.state.voters == (1, 2, 3, 4, 5)
        cluster.create_topic("five", 5)
        for node_id in (1, 2):
            cluster.kill(node_id)
        cluster.leader_of("five", 0)
        assert status_of(cluster)["has_quorum"] is True
        eventually(
            lambda: all(view.leader > 2 for view in cluster.partitions("five").values()), "others lead"
        )
