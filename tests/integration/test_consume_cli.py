"""`ottla consume` as people and scripts use it: real processes, a real broker."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.command_line import OTTLA, ottla
from tests.integration.peer import Peer, batch, create_topic, produce

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
NUMBERS = itertools.count()
BASE_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start_broker(tmp_path_factory.mktemp("consume") / "data", SETTINGS)) as process:
        yield process


@pytest.fixture
def topic(node: BrokerProcess) -> str:
    """Partition 0 has a, b, c and partition 1 has d, e; one second after the other."""
    name = f"letters{next(NUMBERS)}"
    with Peer(node.port) as peer:
        create_topic(peer, name, partitions=2)
        for index, value in enumerate((b"a", b"b", b"c", b"d", b"e")):
            made = batch(value, key=value.upper(), timestamp=BASE_MS + index * 1_000)
            assert produce(peer, name, made, partition=index // 3).error_code == 0
    return name


def append(node: BrokerProcess, topic: str, *values: bytes) -> None:
    with Peer(node.port) as peer:
        assert produce(peer, topic, batch(*values)).error_code == 0


def consume(node: BrokerProcess, *arguments: str) -> str:
    done = ottla("consume", *arguments, bootstrap=node.bootstrap)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def started(node: BrokerProcess, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [OTTLA, "consume", *arguments, "--bootstrap", node.bootstrap]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def group_state(node: BrokerProcess, group: str) -> Any:
    done = ottla("groups", "describe", group, "--json", bootstrap=node.bootstrap)
    return json.loads(done.stdout) if done.returncode == 0 else {"state": "none", "partitions": []}


def test_a_topic_is_printed_to_its_end(node: BrokerProcess, topic: str) -> None:
    assert sorted(consume(node, topic).split()) == ["a", "b", "c", "d", "e"]
    assert sorted(consume(node, topic, "--until-end", "--format", "key-value").splitlines())[0] == "A\ta"


def test_an_empty_topic_ends_at_once(node: BrokerProcess) -> None:
    name = f"empty{next(NUMBERS)}"
    with Peer(node.port) as peer:
        create_topic(peer, name, partitions=3)
    assert consume(node, name) == ""
    assert consume(node, name, "--from", "latest", "--until-end") == ""


def test_programs_get_one_json_document_per_line(node: BrokerProcess, topic: str) -> None:
    documents = [json.loads(line) for line in consume(node, topic, "--partition", "1", "--json").splitlines()]
    assert documents[0] == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp_ms": BASE_MS + 3_000,
        "key": "D",
        "value": "d",
        "headers": [],
    }
    assert [each["value"] for each in documents] == ["d", "e"]


def test_reading_begins_where_it_is_told_to(node: BrokerProcess, topic: str) -> None:
    moment = datetime.fromtimestamp((BASE_MS + 2_000) / 1000, UTC).isoformat()
    assert sorted(consume(node, topic, "--from", moment).split()) == ["c", "d", "e"]
    assert sorted(consume(node, topic, "--from", "1").split()) == ["b", "c", "e"]
    assert consume(node, topic, "--from", "99") == ""
    assert consume(node, topic, "--from", "1", "--partition", "0", "--count", "1").split() == ["b"]


def test_reading_ends_where_it_is_told_to(node: BrokerProcess, topic: str) -> None:
    moment = datetime.fromtimestamp((BASE_MS + 2_000) / 1000, UTC).isoformat()
    assert sorted(consume(node, topic, "--until", moment).split()) == ["a", "b"]
    assert sorted(consume(node, topic, "--until", "1").split()) == ["a", "d"]
    assert sorted(consume(node, topic, "--until", "end").split()) == ["a", "b", "c", "d", "e"]
    assert consume(node, topic, "--from", "1", "--until", "2", "--partition", "0").split() == ["b"]


def test_a_moment_that_lies_ahead_is_waited_for(node: BrokerProcess, topic: str) -> None:
    ahead = (datetime.now(UTC) + timedelta(seconds=6)).isoformat()
    with started(node, topic, "--until", ahead) as process:
        assert process.stdout is not None
        first = {process.stdout.readline().strip() for _ in range(5)}
        append(node, topic, b"late")
        assert process.communicate(timeout=20)[0] == b"late\n"
    assert (first, process.returncode) == ({b"a", b"b", b"c", b"d", b"e"}, 0)


def test_a_group_finds_again_what_lay_behind_the_end(node: BrokerProcess, topic: str) -> None:
    assert sorted(consume(node, topic, "--group", topic, "--until", "1").split()) == ["a", "d"]
    assert sorted(consume(node, topic, "--group", topic).split()) == ["b", "c", "e"]


def test_only_records_that_fulfil_all_conditions_are_printed_and_counted(
    node: BrokerProcess, topic: str
) -> None:
    assert sorted(consume(node, topic, "--filter", "value~[bde]", "--filter", "key!=D").split()) == ["b", "e"]
    assert consume(node, topic, "--filter", "partition=0", "--count", "2").split() == ["a", "b"]
    first = consume(node, topic, "--group", topic, "--filter", "partition=0", "--count", "1").split()
    rest = consume(node, topic, "--group", topic, "--filter", "partition=0").split()
    assert first + rest == ["a", "b", "c"]


def test_a_line_shows_what_its_template_says(node: BrokerProcess, topic: str) -> None:
    printed = consume(node, topic, "--partition", "1", "--format", "{partition}/{offset} {key}={value}")
    assert printed == "1/0 D=d\n1/1 E=e\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "soon"], "--from: neither earliest nor latest nor an offset"),
        (["--until", "later"], "--until: neither end nor an offset"),
        (["--until", "end", "--follow"], "it cannot go with --follow"),
        (["--filter", "size=3"], 'there is no field "size"'),
        (["--format", "{size}"], 'a record has no "size"'),
        (["--group", "g", "--from", "5"], "--from 5 cannot go with --group"),
    ],
)
def test_what_cannot_be_understood_is_told(node: BrokerProcess, arguments: list[str], words: str) -> None:
    done = ottla("consume", "t", *arguments, bootstrap=node.bootstrap)
    assert done.returncode == 2
    assert words in done.stderr


def test_following_goes_on_until_there_is_enough(node: BrokerProcess, topic: str) -> None:
    with started(node, topic, "--from", "latest", "--count", "2") as process:

        def is_content() -> bool:
            append(node, topic, b"new")  # again and again: nobody knows when the consumer has found the end
            return process.poll() is not None

        wait_until(is_content, "two records came")
        assert process.stdout is not None
        assert process.stdout.read() == b"new\nnew\n"
    assert process.returncode == 0


def test_a_group_goes_on_where_it_was(node: BrokerProcess, topic: str) -> None:
    first = consume(node, topic, "--group", topic, "--count", "3").split()
    second = consume(node, topic, "--group", topic).split()
    assert sorted(first + second) == ["a", "b", "c", "d", "e"]
    assert consume(node, topic, "--group", topic) == ""
    append(node, topic, b"f")
    assert consume(node, topic, "--group", topic).split() == ["f"]


def test_two_processes_of_one_group_share_the_work(node: BrokerProcess, topic: str) -> None:
    with (
        started(node, topic, "--group", topic, "--follow") as one,
        started(node, topic, "--group", topic, "--follow") as other,
    ):
        processes = (one, other)

        def owners() -> set[str]:
            partitions = group_state(node, topic)["partitions"]
            return {each["member_id"] for each in partitions if each["member_id"]}

        wait_until(lambda: len(owners()) == 2, "each of them has a partition", 30)
        wait_until(
            lambda: sum(each["lag_records"] or 0 for each in group_state(node, topic)["partitions"]) == 0,
            "all is committed",
            30,
        )
        for process in processes:
            process.send_signal(signal.SIGINT)
        lines = [line for process in processes for line in process.communicate(timeout=20)[0].split()]
    assert {b"a", b"b", b"c", b"d", b"e"} == set(lines)


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_commits_leaves_the_group_and_says_nothing(
    node: BrokerProcess, topic: str, how: signal.Signals, status: int
) -> None:
    with started(node, topic, "--group", topic, "--follow") as process:
        assert process.stdout is not None
        lines = {process.stdout.readline().strip() for _ in range(5)}
        process.send_signal(how)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (status, b"", b"")
    assert lines == {b"a", b"b", b"c", b"d", b"e"}
    state = group_state(node, topic)
    assert state["state"] == "Empty"
    assert sum(each["lag_records"] for each in state["partitions"]) == 0


def test_a_reader_that_has_enough_is_no_error(node: BrokerProcess, topic: str) -> None:
    append(node, topic, *[bytes([65 + each % 26]) * 900 for each in range(1_000)])
    read_end, write_end = os.pipe()
    command = [OTTLA, "consume", topic, "--bootstrap", node.bootstrap]
    with subprocess.Popen(command, stdout=write_end, stderr=subprocess.PIPE) as process:
        os.close(write_end)
        assert os.read(read_end, 10)
        os.close(read_end)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nix"], 'there is no topic "nix" (UNKNOWN_TOPIC_OR_PARTITION)'),
        (["nix", "--group", "g"], 'there is no topic "nix"'),
    ],
)
def test_what_is_not_there_is_one_sentence(node: BrokerProcess, arguments: list[str], words: str) -> None:
    done = ottla("consume", *arguments, bootstrap=node.bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_partition_that_is_not_there_is_one_sentence(node: BrokerProcess, topic: str) -> None:
    done = ottla("consume", topic, "--partition", "9", bootstrap=node.bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no partition {topic}-9" in done.stderr


def test_a_restarted_broker_is_waited_for_while_following(tmp_path: Path) -> None:
    first = start_broker(tmp_path / "data", SETTINGS)
    with running(first):
        with Peer(first.port) as peer:
            create_topic(peer, "t")
            produce(peer, "t", batch(b"before"))
        with started(first, "t", "--follow", "--count", "2") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"before\n"
            first.kill()
            with running(start_broker(tmp_path / "data", SETTINGS, port=first.port)) as again:
                append(again, "t", b"after")
                assert process.stdout.readline() == b"after\n"
                assert process.wait(20) == 0
