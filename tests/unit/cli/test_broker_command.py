from __future__ import annotations

import json
from uuid import UUID

import click
import pytest
from click.testing import CliRunner

from ottla.cli.broker_command import config_changes, print_json, print_table, raise_errors
from ottla.cli.main import ottla
from ottla.client.requests.configs import ConfigChange, ConfigOperation
from ottla.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list", "--bootstrap", "localhost:kafka"],
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "create", "t", "--partitions", "three"],
        ["topics", "create", "t", "--config", "retention.ms"],
        ["topics", "create"],
        ["topics", "delete"],
        ["topics", "alter", "t"],
        ["configs", "alter"],
        ["topics", "describe", "--bogus"],
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2(arguments: list[str]) -> None:
    shown = CliRunner().invoke(ottla, arguments)
    assert shown.exit_code == 2, shown.output
    assert shown.stdout == ""
    assert "Error: " in shown.stderr


def test_a_broker_that_is_not_there_is_one_sentence_with_what_to_do() -> None:
    shown = CliRunner().invoke(ottla, ["topics", "list", "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr == (
        "Error: could not reach 127.0.0.1:1: connection refused. Is the broker running? Start one with: ottla serve\n"
    )


def test_the_address_may_come_from_the_environment() -> None:
    shown = CliRunner().invoke(ottla, ["topics", "list"], env={"OTTLA_BOOTSTRAP": "127.0.0.1:1"})
    assert "could not reach 127.0.0.1:1" in shown.stderr


def test_changes_are_read_from_both_options() -> None:
    assert config_changes(["a=1"], ["b"]) == [
        ConfigChange("a", "1"),
        ConfigChange("b", None, ConfigOperation.DELETE),
    ]


def test_what_failed_is_told_in_one_sentence_with_its_codes() -> None:
    raise_errors({"a": None}, "delete")
    gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic 'b'.")
    with pytest.raises(click.ClickException) as caught:
        raise_errors({"a": None, "b": gone}, "delete")
    assert caught.value.message == "could not delete b: There is no topic 'b' (UNKNOWN_TOPIC_OR_PARTITION)"


def test_tables_are_not_folded_in_a_pipe_and_show_a_dash_for_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(["name", "n"], [["[bold]x[/bold]" * 9, 1], ["y", None]])
    shown = capsys.readouterr().out
    assert "[bold]x[/bold]" * 9 in shown
    assert shown.splitlines()[-2].split() == ["y", "-"]


def test_json_is_one_document_in_any_alphabet(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "größe"})
    shown = capsys.readouterr().out
    assert "größe" in shown
    assert json.loads(shown) == {"name": "größe"}


def test_ids_are_printed_as_kafkas_tools_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"id": UUID(int=0)})
    assert capsys.readouterr().out == '{\n  "id": "AAAAAAAAAAAAAAAAAAAAAA"\n}\n'
    with pytest.raises(TypeError, match="cannot be printed as JSON"):
        print_json(object())
