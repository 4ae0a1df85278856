"""The messages of `ottla pipeline` before Spark starts: brokers and servers that do not answer, options that
do not go together.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla.testing
from ottla.cli.spark.pipeline import pipeline
from ottla.spark.pipelines.template import copy_template


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy_template(tmp_path / "coffee")
    return tmp_path / "coffee"


def free_address() -> str:
    """An address without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def told(*arguments: str, expect: int) -> str:
    done = CliRunner().invoke(pipeline, arguments)
    assert done.exit_code == expect, done.output
    return done.output


@pytest.mark.parametrize("command", ["run", "check"])
def test_brokers_that_do_not_answer_are_told_before_spark_starts(command: str, project: Path) -> None:
    address = free_address()
    began = time.monotonic()

    said = told(command, str(project), "--bootstrap", address, expect=1)

    assert said.startswith(f"Error: No broker answers at {address}: ")
    assert time.monotonic() - began < 5  # Spark alone takes longer
    assert not (project / "storage").exists()


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("text", "reason"), [("def x(:\n    pass\n", ":1: invalid syntax"), ("a = 1\x00\n", ": source code ")]
)
def test_a_syntax_error_is_told_before_spark_starts(
    command: str, text: str, reason: str, project: Path
) -> None:
    (file, *_) = sorted((project / "transformations").glob("*.py"))
    file.write_text(text)

    said = told(command, str(project), "--bootstrap", free_address(), expect=1)

    assert f"Error: {file}{reason}" in said


def test_a_server_that_does_not_answer_is_told_at_once(project: Path) -> None:
    address = free_address()
    with ottla.testing.broker() as broker:
        for url, reason in ((f"sc://{address}", "refused"), (f"sc://{broker.bootstrap}", "closed")):
            said = told("run", str(project), "--bootstrap", broker.bootstrap, "--remote", url, expect=1)
            assert f"Error: No Spark Connect server answers at {url}: " in said
            assert reason in said
            assert "start-connect-server.sh starts one." in said
        said = told("check", str(project), "--bootstrap", broker.bootstrap, "--remote", "http://x", expect=1)
    assert "The URL must start with 'sc://'" in said


def test_options_that_exclude_each_other_are_refused(project: Path) -> None:
    both = told("run", str(project), "--remote", "sc://a", "--master", "local[2]", expect=2)
    assert "give one of them" in both
    assert "--ship goes with --master" in told(
        "check", str(project), "--remote", "sc://a", "--ship", expect=2
    )
