"""The README and the pages that continue it: every program and every command runs as it stands there."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import start

from ottla.localcluster.broker_process import BrokerProcess, running

ROOT = Path(__file__).resolve().parents[2]
# In the order in which a newcomer reads them.
PAGES = ("README.md", "docs/cli.md", "docs/kafka-clients.md", "CONTRIBUTING.md")
TEXT = "\n".join((ROOT / page).read_text() for page in PAGES)
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHELL = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]
FAMILIES = (
    "clients",
    "topics",
    "configs",
    "features",
    "produce",
    "consume",
    "bench",
    "groups",
    "transactions",
)
COMMANDS = re.compile(rf"(echo .* \| )?ottla ({'|'.join(FAMILIES)}) ")
SERVING = re.compile(r"(OTTLA_\w+=\S+ )?ottla serve")
# tests/spark/test_pipeline.py runs the lines about pipelines; `make setup` installs as these two lines do.
ELSEWHERE = re.compile(r'ottla pipeline |python coffee/generate\.py$|pip install (\.|"\.\[spark\]")$')
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def node(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Ottla or, under `make compat`, Apache Kafka: the commands and the programs work with both."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with running(start(target, tmp_path_factory.mktemp("readme") / "data", settings)) as process:
        yield process


def run(command: list[str], node: BrokerProcess) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OTTLA_BOOTSTRAP": node.bootstrap}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.parametrize("program", PYTHON, ids=lambda program: re.findall(r"from (\w+)", program)[0])
def test_a_program_runs_and_prints_something(program: str, node: BrokerProcess) -> None:
    assert "localhost:9092" in program or "testing.broker()" in program
    done = run(
        [sys.executable, "-W", "ignore", "-c", program.replace("localhost:9092", node.bootstrap)], node
    )
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout or "payments" in done.stdout


INTERRUPTED = 130


@contextmanager
def started(command: str, node: BrokerProcess) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"OTTLA_BOOTSTRAP": node.bootstrap, "PATH": f"{BIN}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def type_in(command: str, node: BrokerProcess) -> str:
    """Type a command, wait for it, and answer what it prints."""
    with started(command, node) as process:
        said, complained = process.communicate(timeout=60)
        assert process.returncode == 0, f"{command}: {complained}"
        return said


def follow(command: str, producing: str, node: BrokerProcess) -> str:
    """Give what follows something to follow until it prints; then Ctrl-C."""
    with started(f"exec {command}", node) as following:
        assert following.stdout is not None
        deadline = time.monotonic() + 60
        while not select.select([following.stdout], [], [], 0.1)[0]:
            assert time.monotonic() < deadline, f"{command} prints nothing"
            type_in(producing, node)
        following.send_signal(signal.SIGINT)
        said, complained = following.communicate(timeout=60)
        assert following.returncode == INTERRUPTED, f"{command}: {complained}"
        return said


def test_every_line_of_shell_has_a_test() -> None:
    known = (COMMANDS, SERVING, ELSEWHERE, re.compile(r"ottla cluster "), re.compile(r"make [a-z]+"))
    assert [line for line in SHELL if line and not any(each.match(line) for each in known)] == []


@pytest.mark.timeout(300)  # some thirty processes one after the other, on a machine that may be busy
def test_the_commands_run_in_their_order(node: BrokerProcess) -> None:
    """All commands, one after the other, on one broker, in the order in which a reader types them."""
    commands = [line for line in SHELL if COMMANDS.match(line)]
    assert {family for family in FAMILIES for line in commands if f"ottla {family} " in line} == {*FAMILIES}
    assert len(commands) >= 26
    producing = next(line for line in commands if "ottla produce orders" in line)
    for command in commands:
        said = follow(command, producing, node) if "--follow" in command else type_in(command, node)
        assert said or "ottla produce " in command, f"{command} prints nothing"


def test_every_way_to_serve_is_understood(tmp_path: Path) -> None:
    """Each is started in a directory that cannot hold data: only its settings are tried."""
    (tmp_path / "broker.properties").write_text("num.partitions=3\n")
    (tmp_path / "ottla-data").write_text("")
    served = [line for line in SHELL if SERVING.match(line)]
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
        # Only the port differs: another broker may have 9092 on this machine.
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


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"(?:^|`)make ([a-z]+)", TEXT, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []
