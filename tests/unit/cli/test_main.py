from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from ottla.cli.main import COMMANDS, ottla
from ottla.version import __version__


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(ottla, ["-h"])
    assert shown.exit_code == 0
    for name, entry in COMMANDS.items():
        assert name in shown.output
        assert entry.summary in shown.output


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(ottla, ["--version"]).output == f"ottla, version {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help(name: str) -> None:
    shown = CliRunner().invoke(ottla, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert f"Usage: ottla {name}" in shown.output


def test_an_unknown_command_is_a_mistake_of_usage() -> None:
    shown = CliRunner().invoke(ottla, ["sreve"])
    assert shown.exit_code == 2
    assert "No such command 'sreve'" in shown.output


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("import ottla.cli.main", ["asyncio", "ottla.protocol", "ottla.client", "ottla.server", "rich"]),
        ("import ottla.cli.serve", ["asyncio", "ottla.client", "ottla.server", "rich"]),
        ("import ottla.cli.serve, ottla.server.broker", ["ottla.client", "rich", "cramjam"]),
    ],
)
def test_start_up_imports_nothing_it_does_not_need(command: str, unwanted: list[str]) -> None:
    assert all(find_spec(name) for name in unwanted)
    program = f"{command}; import sys; print([name for name in {unwanted} if name in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"
