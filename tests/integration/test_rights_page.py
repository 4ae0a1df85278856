"""docs/security.md on rights, users and quotas: its commands and programs run in their order, and print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.test_client_docs import RUN_LIKE_A_NOTEBOOK, promised

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SECTIONS = [
    section
    for section in re.split(r"^(?=## )", PAGE, flags=re.MULTILINE)
    if section.startswith(("## Rights", "## Users", "## Quotas"))
]
COMMANDS = [
    line
    for section in SECTIONS
    for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    for line in block.splitlines()
]
PROGRAMS = [block for section in SECTIONS for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL)]
SETTINGS = [
    dict(line.split("=", 1) for line in block.splitlines())
    for section in SECTIONS
    for block in re.findall(r"```properties\n(.*?)```", section, re.DOTALL)
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the settings of the page, on which whoever does not log in may do everything."""
    settings = {name: value for block in SETTINGS for name, value in block.items()}
    settings["super.users"] += ";User:ANONYMOUS"
    settings["ottla.audit.log.file"] = str(tmp_path_factory.mktemp("audit") / "audit.log")
    with running(start_broker(tmp_path_factory.mktemp("rights") / "data", settings)) as process:
        yield process


def test_the_commands_run_in_their_order(node: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "alice.password").write_text("secret\n", encoding="utf-8")
    environment = os.environ | {
        "OTTLA_BOOTSTRAP": node.bootstrap,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    assert len(COMMANDS) >= 12
    for command in COMMANDS:
        assert re.match(r"ottla (acls|users|quotas) ", command)
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout
        if command == "ottla acls check alice read --topic orders":
            assert done.stdout.strip().removesuffix(".") in " ".join(PAGE.split())


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_runs_and_prints_what_the_page_says(program: str, node: BrokerProcess) -> None:
    assert "localhost:9092" in program
    command = [sys.executable, "-W", "error", "-c", RUN_LIKE_A_NOTEBOOK]
    done = subprocess.run(
        [*command, program.replace("localhost:9092", node.bootstrap)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert [line for line in promised(program) if line not in said] == []
    assert promised(program)
