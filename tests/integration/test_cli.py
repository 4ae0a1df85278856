"""The command line as people and scripts use it: real processes, a real broker (OPS-1, CTL-7)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.command_line import OTTLA, ottla

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start_broker(tmp_path_factory.mktemp("cli") / "data")) as process:
        yield process


def answer(node: BrokerProcess, *arguments: str) -> Any:
    """What a command prints with --json."""
    done = ottla(*arguments, "--json", bootstrap=node.bootstrap)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_topic_is_created_listed_described_altered_and_deleted(node: BrokerProcess) -> None:
    made = ottla("topics", "create", "walk", "--partitions", "3", "--bootstrap", node.bootstrap)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("Created topic walk: 3 partitions, replication factor 1, id ")
    assert "walk" in ottla("topics", "list", bootstrap=node.bootstrap).stdout
    (before,) = answer(node, "topics", "describe", "walk")
    assert [each["partition"] for each in before["partitions"]] == [0, 1, 2]
    assert {
        (each["leader"], each["log_start_offset"], each["high_watermark"]) for each in before["partitions"]
    } == {(1, 0, 0)}
    after = answer(node, "topics", "alter", "walk", "--partitions", "4", "--config", "retention.ms=1000")
    assert (len(after["partitions"]), after["configs"]) == (4, {"retention.ms": "1000"})
    assert after["topic_id"] == before["topic_id"]
    back = answer(node, "topics", "alter", "walk", "--delete-config", "retention.ms")
    assert back["configs"] == {}
    gone = ottla("topics", "delete", "walk", bootstrap=node.bootstrap)
    assert (gone.returncode, gone.stdout) == (0, "Deleted topic walk.\n")
    assert "walk" not in [topic["name"] for topic in answer(node, "topics", "list")]


def test_creating_twice_fails_unless_that_is_asked_for(node: BrokerProcess) -> None:
    assert answer(node, "topics", "create", "twice", "--config", "segment.bytes=2000000")["created"] is True
    again = ottla("topics", "create", "twice", bootstrap=node.bootstrap)
    assert again.returncode == 1
    assert again.stdout == ""
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    there = answer(node, "topics", "create", "twice", "--if-not-exists")
    assert (there["created"], there["differs"]) == (False, {})


def test_a_topic_that_is_there_is_left_as_it_is_and_the_difference_is_told(node: BrokerProcess) -> None:
    answer(node, "topics", "create", "other", "--partitions", "2", "--config", "segment.bytes=2000000")
    command = ["topics", "create", "other", "--if-not-exists", "--partitions", "3"]
    command += ["--config", "segment.bytes=2000000", "--config", "retention.ms=1000"]
    again = ottla(*command, bootstrap=node.bootstrap)
    assert again.returncode == 0
    assert again.stdout.startswith("There is already a topic other: 2 partitions")
    assert again.stderr == (
        "It was left as it is: partitions is 2, not 3, retention.ms is 604800000, not 1000. "
        "To change it, use: ottla topics alter other\n"
    )
    assert answer(node, *command)["differs"] == {
        "partitions": ["2", "3"],
        "retention.ms": ["604800000", "1000"],
    }


def test_what_does_not_exist_is_named_and_the_rest_is_done(node: BrokerProcess) -> None:
    answer(node, "topics", "create", "some")
    half = ottla("topics", "describe", "some", "none", "--json", bootstrap=node.bootstrap)
    assert half.returncode == 1
    assert [topic["name"] for topic in json.loads(half.stdout)] == ["some"]
    assert "none" in half.stderr
    half = ottla("topics", "delete", "some", "none", bootstrap=node.bootstrap)
    assert (half.returncode, half.stdout) == (1, "Deleted topic some.\n")
    assert half.stderr.count("\n") == 1
    assert answer(node, "topics", "delete", "none", "--if-exists") == {"deleted": []}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["topics", "create", "bad name"], "INVALID_TOPIC_EXCEPTION"),
        (["topics", "create", "many", "--replication-factor", "3"], "INVALID_REPLICATION_FACTOR"),
        (["topics", "create", "odd", "--config", "no.such.setting=1"], "INVALID_CONFIG"),
        (["topics", "alter", "nowhere", "--partitions", "3"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["configs", "alter", "--config", "node.id=7"], "INVALID_REQUEST"),
    ],
)
def test_what_the_broker_refuses_is_one_sentence(
    node: BrokerProcess, arguments: list[str], code: str
) -> None:
    done = ottla(*arguments, bootstrap=node.bootstrap)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert code in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_brokers_settings_are_shown_with_their_source_and_changed(node: BrokerProcess) -> None:
    given = {entry["name"]: entry["source"] for entry in answer(node, "configs", "describe")["1"]}
    assert given["listeners"] == "static_broker"
    answer(node, "configs", "alter", "--broker", "1", "--config", "log.retention.ms=123456")
    changed = {entry["name"]: entry for entry in answer(node, "configs", "describe", "--all")["1"]}
    assert changed["log.retention.ms"]["value"] == "123456"
    assert changed["log.retention.ms"]["source"] == "dynamic_broker"
    assert len(changed) > len(given)
    answer(node, "configs", "alter", "--broker", "1", "--delete-config", "log.retention.ms")
    table = ottla("configs", "describe", "--broker", "1", bootstrap=node.bootstrap)
    assert "given at start" in table.stdout
    assert "log.retention.ms" not in table.stdout


def test_the_levels_of_features_are_shown_and_changed(node: BrokerProcess) -> None:
    def level() -> int:
        found = {feature["name"]: feature for feature in answer(node, "features", "list")}
        return int(found["transaction.version"]["level"])

    assert level() == 2
    answer(node, "features", "downgrade", "transaction.version", "0")
    assert level() == 0
    done = ottla("features", "upgrade", "transaction.version", "2", bootstrap=node.bootstrap)
    assert done.stdout == "'transaction.version' is at level 2.\n"
    assert "0 to 2" in ottla("features", "list", bootstrap=node.bootstrap).stdout
    refused = ottla("features", "upgrade", "transaction.version", "9", bootstrap=node.bootstrap)
    assert "INVALID_UPDATE_VERSION" in refused.stderr


def test_the_ready_line_tells_all_that_one_needs(node: BrokerProcess) -> None:
    (line,) = [line for line in node.said().splitlines() if " is ready at " in line]
    assert re.search(
        rf" is ready at localhost:{node.port} after \d+\.\d\d s \(node 1, cluster \S{{22}}, data in ", line
    )
    assert f"data in {node.data}" in line


def test_a_port_in_use_is_refused(node: BrokerProcess, tmp_path: Path) -> None:
    done = ottla("serve", "--data", str(tmp_path / "d"), "--port", str(node.port))
    assert done.returncode == 2
    assert done.stderr == f"Error: Port {node.port} of localhost is in use: choose another with --port.\n"


def test_a_data_directory_in_use_is_refused_with_its_users_pid(node: BrokerProcess) -> None:
    done = ottla("serve", "--data", str(node.data), "--port", "0")
    assert done.returncode == 2
    assert f"{node.data} is in use by process {node.pid}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_data_directory_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        done = ottla("serve", "--data", str(path), "--port", "0")
        assert done.returncode == 2
        assert done.stderr.startswith(f"Error: The data directory {path} cannot be used: ")


def test_data_of_another_node_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(start_broker(data)):
        pass
    done = ottla("serve", "--data", str(data), "--port", "0", "--node-id", "2")
    assert done.returncode == 2
    assert "belongs to node 1" in done.stderr


def test_settings_come_from_file_environment_and_flags(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("num.partitions=2\nlog.segment.bytes=1000000\nlog.roll.hours=5\n")
    command = [OTTLA, "serve", "--data", str(tmp_path / "data"), "--port", "0", "--config", str(file)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    environment |= {"OTTLA_NUM_PARTITIONS": "3", "OTTLA_LOG_SEGMENT_BYTES": "2000000"}
    process = subprocess.Popen(
        [*command, "--set", "num.partitions=4", "--quiet"], stdout=subprocess.PIPE, text=True, env=environment
    )
    with _stopped(process):
        assert process.stdout is not None
        port = process.stdout.readline().split(" is ready at localhost:")[1].split()[0]
        done = ottla("configs", "describe", "--json", "--bootstrap", f"localhost:{port}")
        values = {entry["name"]: entry["value"] for entry in json.loads(done.stdout)["1"]}
    assert values["num.partitions"] == "4"
    assert values["log.segment.bytes"] == "2000000"
    assert values["log.roll.hours"] == "5"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_stops_cleanly_when_it_is_told_to(tmp_path: Path, how: signal.Signals) -> None:
    with running(start_broker(tmp_path / "data")) as process:
        with socket.create_connection(("127.0.0.1", process.port)):
            process.process.send_signal(how)
            assert process.process.wait(10) == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        assert "Traceback" not in process.said()


def test_ipv6_addresses_work(tmp_path: Path) -> None:
    command = [OTTLA, "serve", "--data", str(tmp_path / "data"), "--port", "0", "--host", "::1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with _stopped(process):
        assert process.stdout is not None
        address = process.stdout.readline().split(" is ready at ")[1].split()[0]
        assert address.startswith("[::1]:")
        done = ottla("topics", "create", "six", "--bootstrap", address)
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def _stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.communicate(timeout=20)
