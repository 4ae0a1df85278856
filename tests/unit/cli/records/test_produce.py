from __future__ import annotations

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument 'TOPIC'"),
        (["t", "--json", "--key-separator", ":"], "two ways to read a line"),
        (["t", "--key", "k", "--key-separator", ":"], "cannot both say what the key is"),
        (["t", "--key-separator", ""], "--key-separator must not be empty"),
        (["t", "--header", "x"], '--header "x" is not NAME=VALUE'),
        (["t", "--acks", "2"], "--acks"),
        (["t", "--rate", "0"], "--rate"),
        (["t", "--partitioner", "random"], "--partitioner"),
        (["t", "--compression", "zip"], "--compression"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2(arguments: list[str], words: str) -> None:
    shown = CliRunner().invoke(ottla, ["produce", *arguments, "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 2, shown.output
    assert words in shown.stderr


def test_a_broker_that_is_not_there_is_one_sentence() -> None:
    shown = CliRunner().invoke(ottla, ["produce", "t", "--bootstrap", "127.0.0.1:1"], input="x\n")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("Error: could not reach 127.0.0.1:1: connection refused.")
    assert shown.stderr.count("\n") == 1
