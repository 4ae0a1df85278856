from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla
from ottla.cli.serve import refusal
from ottla.config import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.server.process import HaltedError


def serve(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Start with a configuration that cannot work; the exit code and all that was said."""
    shown = CliRunner().invoke(ottla, ["serve", *arguments], env=environment)
    return shown.exit_code, shown.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "http"], "--port cannot be 'http': it must be a number from 0 (any free port) to 65535."),
        (["--node-id", "x"], "node.id cannot be 'x': it must be a whole number, at least 0."),
        (["--set", "num.partitions"], "--set cannot be 'num.partitions': write --set NAME=VALUE."),
        (["--set", "num.partitons=3"], "There is no setting 'num.partitons'; did you mean 'num.partitions'?"),
        (
            ["--set", "num.partitions=0"],
            "num.partitions cannot be '0': it must be a whole number, at least 1.",
        ),
        (
            ["--config", "/no/such/file"],
            "The settings file /no/such/file cannot be read: no such file or directory.",
        ),
        (["--host", "0.0.0.0"], "Clients cannot connect to 0.0.0.0: set advertised.listeners"),
    ],
)
def test_an_unusable_configuration_is_refused_with_one_sentence(arguments: list[str], sentence: str) -> None:
    code, said = serve(*arguments)
    assert code == 2
    assert said.startswith(f"Error: {sentence}")
    assert said.count("\n") == 1


def test_the_environment_is_read_too() -> None:
    code, said = serve(environment={"OTTLA_NUM_PARTITIONS": "many"})
    assert (code, said) == (
        2,
        "Error: num.partitions cannot be 'many': it must be a whole number, at least 1.\n",
    )


def test_a_flag_comes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("num.partitions=file\nnode.id=file\nlog.segment.bytes=file\n")
    environment = {"OTTLA_NODE_ID": "environment", "OTTLA_NUM_PARTITIONS": "environment"}
    told = [
        serve("--config", str(file), "--set", "num.partitions=flag", environment=environment)[1],
        serve("--config", str(file), "--set", "num.partitions=1", environment=environment)[1],
        serve("--config", str(file), "--set", "num.partitions=1", "--node-id=1", environment=environment)[1],
    ]
    # Each layer that is made good uncovers the mistake of the one below it.
    assert "num.partitions cannot be 'flag'" in told[0]
    assert "node.id cannot be 'environment'" in told[1]
    assert "log.segment.bytes cannot be 'file'" in told[2]


def test_help_has_examples_and_the_order_of_sources() -> None:
    _, said = serve("--help")
    assert "ottla serve --data /var/lib/ottla --port 9093" in said
    assert "comes before the environment" in " ".join(said.split())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.EADDRINUSE, "in use"),
            "Port 9092 of localhost is in use: choose another with --port.",
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "x"),
            "This machine has no address localhost: choose another with --host.",
        ),
        (PermissionError(errno.EACCES, "x"), "Port 9092 of localhost is not allowed to this user"),
        (socket.gaierror(-2, "x"), "The host localhost is not known: choose another with --host."),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data/.lock"),
            "The data directory /data cannot be used: permission denied (/data/.lock).",
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "/data"),
            "The data directory /data cannot be used: it is not a directory (/data).",
        ),
        (
            KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "/data is in use by process 7"),
            "/data is in use by process 7",
        ),
        (OSError("odd"), "odd"),
    ],
)
def test_what_keeps_a_broker_from_starting_is_said_in_one_sentence(error: Exception, sentence: str) -> None:
    assert refusal(error, BrokerConfig.from_properties({"log.dirs": "/data"})).startswith(sentence)


@pytest.mark.parametrize(("is_ready", "exit_code"), [(False, 2), (True, 1)])
def test_a_node_that_cannot_go_on_says_why(
    monkeypatch: pytest.MonkeyPatch, is_ready: bool, exit_code: int
) -> None:
    def halt(config: BrokerConfig, on_ready: Callable[[Any], None], before_stop: None) -> None:
        if is_ready:
            on_ready(SimpleNamespace(config=config, port=1, http_port=None, cluster_id="c"))
        raise HaltedError("The disk is gone.")

    monkeypatch.setattr("ottla.server.process.run", halt)
    code, said = serve()
    assert code == exit_code
    assert said.endswith("Error: The disk is gone.\n")
