"""`ottla groups` as people and scripts use it: real processes, a real broker, real members."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner
from tests.integration.command_line import ottla
from tests.integration.peer import Peer, batch, create_topic, now_ms, produce

from ottla.cli.main import ottla as command
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.model import TopicPartition

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start_broker(tmp_path_factory.mktemp("groups") / "data", SETTINGS)) as process:
        yield process


@pytest.fixture
def name(node: BrokerProcess) -> str:
    """A topic with two partitions of ten records each, a second apart, the last one just now; also the name
    of a group.
    """
    name = f"orders{next(NUMBERS)}"
    with Peer(node.port) as peer:
        create_topic(peer, name, partitions=2, retention_ms=3_600_000)
        last_ms = now_ms()
        for partition, age in itertools.product(range(2), range(9, -1, -1)):
            made = batch(b"%d" % age, timestamp=last_ms - age * 1_000)
            assert produce(peer, name, made, partition=partition).error_code == 0
    return name


def consume(node: BrokerProcess, name: str, count: int) -> None:
    done = ottla("consume", name, "--group", name, "--count", str(count), bootstrap=node.bootstrap)
    assert done.returncode == 0, done.stderr


def answer(node: BrokerProcess, *arguments: str) -> Any:
    """What a program reads. In this process: what needs a process of its own is what people see."""
    done = CliRunner().invoke(command, ["groups", *arguments, "--bootstrap", node.bootstrap, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def while_reading(node: BrokerProcess, name: str, look: Callable[[], None]) -> None:
    """Look while the group has a member, which keeps its heartbeats going meanwhile."""

    async def run() -> None:
        async with (
            asyncio.timeout(60),
            Consumer(
                node.bootstrap, group_id=name, auto_offset_reset="earliest", client_id="reader"
            ) as consumer,
        ):
            consumer.subscribe([name])
            while len(consumer.assignment) < 2:
                await consumer.poll(timeout_ms=20)
            await asyncio.to_thread(look)

    asyncio.run(run())


def with_admin(node: BrokerProcess, question: Callable[[Admin], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Admin(node.bootstrap) as admin:
            return await question(admin)

    return asyncio.run(run())


def test_groups_are_listed_with_their_states(node: BrokerProcess, name: str) -> None:
    assert name not in [group["group_id"] for group in answer(node, "list")]

    def look() -> None:
        expected = {"group_id": name, "state": "Stable", "type": "classic", "protocol_type": "consumer"}
        assert expected in answer(node, "list")
        assert expected in answer(node, "list", "--state", "stable")
        assert name not in [group["group_id"] for group in answer(node, "list", "--state", "Empty")]

    while_reading(node, name, look)
    assert name in [group["group_id"] for group in answer(node, "list", "--state", "empty")]
    assert name in ottla("groups", "list", bootstrap=node.bootstrap).stdout


def test_a_group_is_described_with_lag_and_distance_to_deletion(node: BrokerProcess, name: str) -> None:
    with_admin(node, lambda admin: admin.delete_records({TopicPartition(name, 0): 3}))
    consume(node, name, 10)
    details = answer(node, "describe", name)
    assert (details["state"], details["coordinator"], details["members"]) == ("Empty", 1, [])
    partitions = details["partitions"]
    assert sum(each["lag_records"] for each in partitions) == 7
    for each in partitions:
        left = each["log_end_offset"] - each["committed_offset"]
        assert (each["log_end_offset"], each["lag_records"], each["lost_records"]) == (10, left, 0)
        assert each["log_start_offset"] == (3 if each["partition"] == 0 else 0)
        assert each["records_to_deletion"] == each["committed_offset"] - each["log_start_offset"]
        if left:
            # The first record not read was written so many seconds before the newest one.
            assert each["behind_newest_ms"] == (left - 1) * 1_000
            assert (left - 1) <= each["lag_seconds"] < (left - 1) + 60
            assert each["deletable_in_ms"] == 3_600_000 - each["waiting_ms"]
        else:
            assert (each["lag_seconds"], each["deletable_in_ms"]) == (0.0, None)
    table = ottla("groups", "describe", name, bootstrap=node.bootstrap).stdout
    assert f"Group {name}, Empty, coordinated by broker 1 at localhost:{node.port}" in table
    assert "Lag 7 in all." in table
    assert "59 min" in table


def test_records_that_are_gone_before_they_were_read_are_lost(node: BrokerProcess, name: str) -> None:
    moved = answer(node, "reset-offsets", name, "--topic", f"{name}:0", "--to-offset", "2", "--execute")
    assert [each["new"] for each in moved["partitions"]] == [2]
    with_admin(node, lambda admin: admin.delete_records({TopicPartition(name, 0): 6}))
    (partition,) = answer(node, "describe", name)["partitions"]
    assert (partition["lost_records"], partition["records_to_deletion"], partition["lag_records"]) == (
        4,
        0,
        8,
    )
    table = ottla("groups", "describe", name, bootstrap=node.bootstrap).stdout
    assert "lost 4" in table
    assert "4 were deleted before the group read them" in table


def test_members_are_shown_with_what_they_were_given(node: BrokerProcess, name: str) -> None:
    def look() -> None:
        details = answer(node, "describe", name)
        (member,) = details["members"]
        assert (member["client_id"], member["assignment"]) == ("reader", {name: [0, 1]})
        assert {each["member_id"] for each in details["partitions"]} == {member["member_id"]}
        assert (details["state"], details["protocol"]) == ("Stable", "range")
        table = ottla("groups", "describe", name, "--members", bootstrap=node.bootstrap).stdout
        assert f"{name} 0,1" in table
        assert "consumer, range; 1 member" in table

    while_reading(node, name, look)
    assert (
        "It has no members."
        in ottla("groups", "describe", name, "--members", bootstrap=node.bootstrap).stdout
    )


def test_a_reset_shows_first_and_changes_only_when_told_to(node: BrokerProcess, name: str) -> None:
    consume(node, name, 20)
    shown = ottla("groups", "reset-offsets", name, "--all-topics", "--to-earliest", bootstrap=node.bootstrap)
    assert shown.returncode == 0
    assert "Nothing was changed. Add --execute to do it." in shown.stdout
    assert {each["committed_offset"] for each in answer(node, "describe", name)["partitions"]} == {10}
    done = ottla(
        *("groups", "reset-offsets", name, "--all-topics", "--to-earliest", "--execute"),
        bootstrap=node.bootstrap,
    )
    assert f"The group {name} was moved." in done.stdout
    assert {each["committed_offset"] for each in answer(node, "describe", name)["partitions"]} == {0}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to-latest"], [10, 10]),
        (["--to-offset", "7"], [7, 7]),
        (["--to-offset", "70"], [10, 10]),
        (["--shift", "-2"], [4, 4]),
        (["--shift", "+99"], [10, 10]),
        (["--to-current"], [6, 6]),
    ],
)
def test_every_target_is_reached(
    node: BrokerProcess, name: str, arguments: list[str], expected: list[int]
) -> None:
    topic = ["--topic", name]
    answer(node, "reset-offsets", name, *topic, "--to-offset", "6", "--execute")
    moved = answer(node, "reset-offsets", name, *topic, *arguments, "--execute")
    assert moved["executed"] is True
    assert [(each["old"], each["new"]) for each in moved["partitions"]] == [(6, new) for new in expected]
    assert [each["committed_offset"] for each in answer(node, "describe", name)["partitions"]] == expected


def test_a_group_is_moved_to_a_time(node: BrokerProcess, name: str) -> None:
    listed = with_admin(node, lambda admin: admin.peek({TopicPartition(name, 0): 4}))
    moment = datetime.fromtimestamp(listed[TopicPartition(name, 0)].timestamp_ms / 1000, UTC).isoformat()
    moved = answer(node, "reset-offsets", name, "--topic", f"{name}:0", "--to-time", moment, "--execute")
    assert [each["new"] for each in moved["partitions"]] == [4]


def test_a_group_with_members_is_not_moved_nor_deleted(node: BrokerProcess, name: str) -> None:
    def look() -> None:
        command = ["groups", "reset-offsets", name, "--topic", name, "--to-earliest"]
        shown = ottla(*command, bootstrap=node.bootstrap)
        assert shown.returncode == 0
        assert f"Note: the group {name} has 1 member (Stable): --execute would be refused." in shown.stderr
        refused = ottla(*command, "--execute", bootstrap=node.bootstrap)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == (
            f"Error: the group {name} has 1 member (Stable): stop its consumers, then try again (NON_EMPTY_GROUP)\n"
        )
        refused = ottla("groups", "delete", name, bootstrap=node.bootstrap)
        assert refused.returncode == 1
        assert f'could not delete {name}: the group "{name}" still has members' in refused.stderr
        refused = ottla("groups", "delete-offsets", name, "--topic", name, bootstrap=node.bootstrap)
        assert refused.returncode == 0 or "GROUP_SUBSCRIBED_TO_TOPIC" in refused.stderr

    while_reading(node, name, look)


def test_groups_and_offsets_are_deleted(node: BrokerProcess, name: str) -> None:
    consume(node, name, 20)
    assert answer(node, "delete-offsets", name, "--topic", f"{name}:1") == {
        "deleted": [{"topic": name, "partition": 1}]
    }
    assert [each["partition"] for each in answer(node, "describe", name)["partitions"]] == [0]
    nothing = ottla("groups", "delete-offsets", name, "--topic", f"{name}:1", bootstrap=node.bootstrap)
    assert (nothing.returncode, nothing.stdout) == (0, f"The group {name} has no committed offsets there.\n")
    half = ottla("groups", "delete", name, "no-such-group", bootstrap=node.bootstrap)
    assert (half.returncode, half.stdout) == (1, f"Deleted group {name}.\n")
    assert half.stderr == (
        'Error: could not delete no-such-group: there is no group "no-such-group" (GROUP_ID_NOT_FOUND)\n'
    )


def test_members_are_removed(node: BrokerProcess, name: str) -> None:
    def look() -> None:
        (seen,) = answer(node, "describe", name)["members"]
        member_id = seen["member_id"]
        half = ottla(
            *("groups", "remove-members", name, "--member", member_id, "--instance", "gone"),
            *("--reason", "it hangs"),
            bootstrap=node.bootstrap,
        )
        assert (half.returncode, half.stdout) == (1, f"Removed {member_id} from the group {name}.\n")
        assert half.stderr == (
            f'Error: could not remove gone: the group "{name}" has no member "gone" (UNKNOWN_MEMBER_ID)\n'
        )

    while_reading(node, name, look)
    assert answer(node, "remove-members", name, "--all-members") == {"removed": []}
    nobody = ottla("groups", "remove-members", name, "--all-members", bootstrap=node.bootstrap)
    assert (nobody.returncode, nobody.stdout) == (0, f"The group {name} has no members.\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["remove-members", "nobody", "--member", "m"], 'there is no group "nobody" (GROUP_ID_NOT_FOUND)'),
        (["remove-members", "nobody", "--all-members"], 'there is no group "nobody" (GROUP_ID_NOT_FOUND)'),
        (["describe", "nobody"], 'there is no group "nobody" (GROUP_ID_NOT_FOUND)'),
        (["reset-offsets", "g", "--topic", "nix", "--to-latest"], 'there is no topic "nix"'),
    ],
)
def test_what_is_not_there_is_one_sentence(node: BrokerProcess, arguments: list[str], words: str) -> None:
    done = ottla("groups", *arguments, bootstrap=node.bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
