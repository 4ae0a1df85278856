from __future__ import annotations

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla
from ottla.client.admin.checks.transaction_check import abort_command
from ottla.model import TopicPartition

ABORT = ["transactions", "abort"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (ABORT, "say which: give transactional ids, or --partition and --producer-id"),
        ([*ABORT, "a", "--partition", "t:0", "--producer-id", "1"], "say which"),
        ([*ABORT, "--partition", "t:0"], "say which"),
        ([*ABORT, "a", "--producer-id", "1"], "say which"),
        ([*ABORT, "--partition", "t", "--producer-id", "1"], '"t" is not a partition: write TOPIC:P'),
        ([*ABORT, "--partition", "t:0,1", "--producer-id", "1"], '"t:0,1" is not a partition'),
        (["transactions", "producers"], "TOPIC[:P,P...]"),
        (["transactions", "producers", "t:x"], '"t:x" is not a topic'),
        (["transactions", "list", "--state", "Sleepy"], "Sleepy"),
        (["transactions", "list", "--open-for", "-1"], "--open-for"),
        (["transactions", "find-hanging", "--topic", "t:x"], '"t:x" is not a topic'),
        (["transactions", "describe"], "TRANSACTIONAL_ID"),
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
        ["transactions", "list", "--state", "ongoing", "--producer-id", "7", "--open-for", "0.5"],
        ["transactions", "describe", "a"],
        ["transactions", "producers", "t:0"],
        [*ABORT, "a", "b"],
        [*ABORT, "--partition", "t:0", "--producer-id", "1"],
        ["transactions", "find-hanging"],
    ],
)
def test_a_broker_that_is_not_there_is_one_sentence(arguments: list[str]) -> None:
    shown = CliRunner().invoke(ottla, [*arguments, "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("Error: could not reach 127.0.0.1:1: connection refused.")
    assert shown.stderr.count("\n") == 1


def test_the_command_that_aborts_a_hanging_transaction_can_be_pasted() -> None:
    command = abort_command(TopicPartition("orders", 2), 4711, "localhost:9092")
    assert command == (
        "ottla transactions abort --partition orders:2 --producer-id 4711 --bootstrap localhost:9092"
    )
