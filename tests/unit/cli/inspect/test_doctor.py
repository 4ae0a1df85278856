"""`ottla doctor`, as a person and a program see it (OPS-7)."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.inspect.data_files import SEGMENT, write_data_directory

from ottla.cli.inspect import broker_check, data_directory_check
from ottla.cli.inspect.doctor import doctor
from ottla.client.admin.checks.findings import Examination
from ottla.localcluster.state import ClusterState
from ottla.localcluster.state_file import write_state


def run(*arguments: object) -> Result:
    return CliRunner().invoke(doctor, [str(argument) for argument in arguments], env={"OTTLA_BOOTSTRAP": ""})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_data_directory(tmp_path / "data")


@pytest.fixture
def damaged(root: Path) -> Path:
    log = root / "orders-0" / SEGMENT
    log.write_bytes(log.read_bytes()[:-3])
    return root


def broker(cluster_id: str = "Some-cluster") -> Examination:
    facts = {"cluster_id": cluster_id, "brokers": 1, "topics": 2, "partitions": 3, "round_trip_ms": 0.2}
    return Examination("localhost:9092", facts=facts)


def test_a_healthy_directory_ends_with_0(root: Path) -> None:
    result = run("--data", root)
    assert result.exit_code == 0, result.output
    assert "1 partition, 1 segment, " in result.output
    assert "All is well." in result.output


def test_findings_come_with_advice_and_end_with_1(damaged: Path) -> None:
    result = run("--data", damaged)
    assert result.exit_code == 1
    assert "error   " in result.output
    assert "claims" in result.output
    assert "ottla dump FILE --deep" in result.output
    assert "Found 3 errors and 1 warning." in result.output, result.output


def test_findings_are_json_for_programs(damaged: Path) -> None:
    result = run("--data", damaged, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["healthy"] is False
    assert document["could_not_look"] == []
    (examined,) = document["examined"]
    assert examined["facts"]["partitions"] == 1
    assert {finding["severity"] for finding in examined["findings"]} == {"error", "warning"}
    assert set(examined["findings"][0]) == {"severity", "place", "problem", "advice"}


def test_what_cannot_be_looked_at_ends_with_2(tmp_path: Path) -> None:
    result = run("--data", tmp_path / "absent")
    assert result.exit_code == 2
    assert result.stderr == f"Error: there is no {tmp_path / 'absent'}\n"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        result = run("--bootstrap", f"127.0.0.1:{port}", "--json")
    assert result.exit_code == 2
    assert "could not reach" in json.loads(result.stdout)["could_not_look"][0]


def test_an_address_that_is_none_ends_with_2() -> None:
    result = run("--bootstrap", "localhost:nine")
    assert result.exit_code == 2
    assert "is not a port" in result.stderr


def test_a_directory_is_examined_even_if_the_broker_cannot_be(damaged: Path) -> None:
    result = run("--data", damaged, "--bootstrap", "localhost:nine")
    assert result.exit_code == 2
    assert "Found 3 errors" in result.stdout


def test_directory_and_broker_are_examined_together(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_check, "examine", lambda bootstrap: broker())
    result = run("--data", root, "--bootstrap", "localhost:9092")
    assert result.exit_code == 0
    assert "cluster Some-cluster, 1 broker, 2 topics, 3 partitions; a question takes 0.2 ms" in result.output


def test_without_options_it_looks_where_serve_would_be(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def examine(bootstrap: str) -> Examination:
        asked.append(bootstrap)
        return broker()

    monkeypatch.setattr(broker_check, "examine", examine)
    monkeypatch.chdir(tmp_path)
    assert run().exit_code == 0
    assert asked == ["localhost:9092"]
    root.rename(tmp_path / "ottla-data")
    assert "ottla-data: 1 partition" in run().output
    assert asked == ["localhost:9092"]


def test_a_broker_of_another_cluster_than_the_directory_in_use_is_a_warning(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_directory_check, "lock_holder", lambda path: 4242)
    monkeypatch.setattr(broker_check, "examine", lambda bootstrap: broker("Another"))
    result = run("--data", root, "--bootstrap", "localhost:9092")
    assert result.exit_code == 1
    assert "it belongs to cluster Another, and " in result.output


def test_the_directory_of_a_cluster_stands_for_all_of_its_brokers(tmp_path: Path) -> None:
    write_state(tmp_path, ClusterState("Some-cluster", "127.0.0.1", (1,), ()))
    (tmp_path / "broker-1.log").write_text("a broker's output")
    for node_id in (1, 2, 10):
        write_data_directory(tmp_path / f"broker-{node_id}")
    result = run("--data", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    subjects = [each["subject"] for each in json.loads(result.stdout)["examined"]]
    assert subjects == [str(tmp_path / f"broker-{node_id}") for node_id in (1, 2, 10)]


def test_the_directory_of_a_cluster_without_brokers_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    result = run("--data", tmp_path)
    assert (result.exit_code, "is no data directory" in result.output) == (2, True)
