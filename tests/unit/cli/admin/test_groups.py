from __future__ import annotations

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla

RESET = ["groups", "reset-offsets", "g"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*RESET, "--topic", "t"], "say where to: give one of --to-earliest, --to-latest"),
        ([*RESET, "--topic", "t", "--to-earliest", "--to-latest"], "say where to"),
        ([*RESET, "--topic", "t", "--to-offset", "0", "--shift", "0"], "say where to"),
        ([*RESET, "--to-earliest"], "say of what: give --topic, or --all-topics"),
        ([*RESET, "--topic", "t", "--all-topics", "--to-earliest"], "say of what"),
        ([*RESET, "--topic", "t:x", "--to-earliest"], '"t:x" is not a topic'),
        ([*RESET, "--topic", "t", "--to-time", "noon"], '"noon" is not a moment'),
        ([*RESET, "--topic", "t", "--to-offset", "-1"], "--to-offset"),
        (["groups", "delete"], "NAME..."),
        (["groups", "delete-offsets", "g"], "--topic"),
        (["groups", "remove-members", "g"], "say whom: give --instance or --member, or --all-members"),
        (["groups", "remove-members", "g", "--member", "m", "--all-members"], "say whom"),
        (["groups", "list", "--state", "Sleepy"], "Sleepy"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2_before_anybody_is_asked(
    arguments: list[str], words: str
) -> None:
    shown = CliRunner().invoke(ottla, [*arguments, "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 2, shown.output
    assert shown.stdout == ""
    assert words in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["groups", "list"],
        ["groups", "describe", "g"],
        [*RESET, "--all-topics", "--shift", "0"],
        [*RESET, "--topic", "t:0", "--to-offset", "0"],
        [*RESET, "--topic", "t", "--to-time", "2025-01-31"],
        ["groups", "delete", "g"],
        ["groups", "delete-offsets", "g", "--topic", "t"],
        ["groups", "remove-members", "g", "--instance", "i"],
    ],
)
def test_a_broker_that_is_not_there_is_one_sentence(arguments: list[str]) -> None:
    shown = CliRunner().invoke(ottla, [*arguments, "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("Error: could not reach 127.0.0.1:1: connection refused.")
    assert shown.stderr.count("\n") == 1
