from __future__ import annotations

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument 'TOPIC'"),
        (
            ["t", "--from", "gestern"],
            '--from: neither earliest nor latest nor an offset, and "gestern" is not a moment',
        ),
        (["t", "--from", "-5"], "is not a moment"),
        (["t", "--count", "0"], "--count"),
        (["t", "--format", "xml"], "--format"),
        (["t", "--partition", "-1"], "--partition"),
        (["t", "--group", "g", "--partition", "0"], "--partition cannot go with --group"),
        (["t", "--group", "g", "--from", "17"], "--from 17 cannot go with --group"),
        (["t", "--group", "g", "--from", "2025-01-31"], "ottla groups reset-offsets"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2(arguments: list[str], words: str) -> None:
    shown = CliRunner().invoke(ottla, ["consume", *arguments, "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 2, shown.output
    assert shown.stdout == ""
    assert words in shown.stderr


@pytest.mark.parametrize("start", ["earliest", "latest", "17", "2025-01-31T08:30", "2025-01-31T08:30:00Z"])
def test_every_beginning_is_understood_and_a_broker_that_is_not_there_is_one_sentence(start: str) -> None:
    shown = CliRunner().invoke(ottla, ["consume", "t", "--from", start, "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 1
    assert shown.stderr.startswith("Error: could not reach 127.0.0.1:1: connection refused.")
    assert shown.stderr.count("\n") == 1
