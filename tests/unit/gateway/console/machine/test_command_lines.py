"""Command lines that a shell and the command line take."""

from __future__ import annotations

import shlex

from ottla.gateway.console.machine.command_lines import CommandLines, assignments

COMMANDS = CommandLines("localhost:9092")


def test_words_options_and_the_cluster() -> None:
    line = COMMANDS.line(
        "consume", "orders", from_=3, json=True, partition=None, filter=["key=1", "value~a b"]
    )
    expected = (
        "ottla consume orders --from 3 --json --filter key=1 --filter 'value~a b' --bootstrap localhost:9092"
    )
    assert line == expected


def test_a_value_that_looks_like_an_option_is_joined_to_its_name() -> None:
    assert "--shift=-100" in shlex.split(COMMANDS.line("groups", "reset-offsets", "g", shift=-100))


def test_text_for_a_shell_is_quoted() -> None:
    line = COMMANDS.piped('{"value": "it\'s; rm -rf"}', "produce", "t", json=True)
    assert shlex.split(line)[2] == '{"value": "it\'s; rm -rf"}'
    assert assignments({"a": "1"}) == ["a=1"]
