"""The README is for strangers who have only it: what it shows must run as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.brokers import BrokerProcess, running, start_ottla

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start_ottla(tmp_path_factory.mktemp("readme") / "data")) as process:
        yield process


def run(command: list[str], node: BrokerProcess) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OTTLA_BOOTSTRAP": node.bootstrap}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.parametrize("program", PYTHON, ids=lambda program: re.findall(r"from (\w+)", program)[0])
def test_a_program_in_the_readme_runs_and_prints_something(program: str, node: BrokerProcess) -> None:
    assert "localhost:9092" in program
    done = run(
        [sys.executable, "-W", "ignore", "-c", program.replace("localhost:9092", node.bootstrap)], node
    )
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout or "payments" in done.stdout


def test_the_commands_in_the_readme_run_in_their_order(node: BrokerProcess) -> None:
    commands = [line for line in SHELL if line.startswith(("ottla topics", "ottla configs"))]
    assert len(commands) >= 8
    for command in commands:
        done = run([str(BIN / "ottla"), *shlex.split(command)[1:]], node)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout


def test_every_way_to_serve_in_the_readme_is_understood(tmp_path: Path) -> None:
    """Each is started in a directory that cannot hold data: only its settings are tried."""
    (tmp_path / "broker.properties").write_text("num.partitions=3\n")
    (tmp_path / "ottla-data").write_text("")
    served = [line for line in SHELL if re.match(r"(OTTLA_\w+=\S+ )?ottla serve", line)]
    assert len(served) >= 5
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    for command in served:
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
        assert done.returncode == 2
        assert "ottla-data cannot be used: it is not a directory" in done.stderr, f"{command}: {done.stderr}"


def test_the_cluster_of_the_readme_runs(tmp_path: Path) -> None:
    commands = [line for line in SHELL if line.startswith("ottla cluster")]
    assert len(commands) >= 5
    for command in commands:
        # Only the port is another: the machine's 9092 may be somebody's.
        words = shlex.split(command.replace("cluster up", "cluster up --port 0"))
        done = subprocess.run(
            [str(BIN / "ottla"), *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"make ([a-z]+)", README)) - {"sure"}
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []


def test_every_link_in_the_readme_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
