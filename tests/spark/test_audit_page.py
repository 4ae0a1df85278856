"""The page on exactly once: what it shows runs as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import ottla.testing
from ottla.cli.main import ottla as command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exactly-once.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_programs_and_commands_of_the_page_do_what_it_says(
    spark: SparkSession,
    broker: ottla.testing.EmbeddedBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
    (program,) = blocks("python")
    # The session that is there is the one that the program gets; its JVM has a working directory of its own.
    placed = program.replace("localhost:9092", broker.bootstrap).replace('"./', f'"{tmp_path}/')
    exec(compile(placed, str(PAGE), "exec"), {})
    promised = re.findall(r"^print\(.*\)  # (.+)$", program, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == promised
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert lines
    for line in lines:
        done = CliRunner().invoke(command, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}"
