"""Apache Kafka's own tools for groups, unmodified: kafka-consumer-groups, and what reads `__consumer_offsets`
(GRP-3, GRP-7).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bench.apache.kafka import ToolResult, run_tool
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.groups.offsets_topic import OFFSETS_TOPIC, partition_of, records
from tests.clients.model import Message
from tests.compat.test_java_tools import Tools

from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until

NAMES = itertools.count()
PARTITIONS = 50  # of the offsets topic, by default
FORMATTERS = "org.apache.kafka.tools.consumer"


class Group:
    """A group with offsets in a topic of two partitions: 4 of 10, and 10 of 10 with a word."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.name = f"tools-group-{next(NAMES)}"
        self.topic = f"topic-of-{self.name}"
        self.client = ConfluentClient(broker.bootstrap)
        self.client.create_topic(self.topic, 2)
        for partition in (0, 1):
            ten = [Message(f"value {n}".encode()) for n in range(10)]
            self.client.produce(self.topic, ten, partition=partition)
        wait_until(self._commit, "there is a coordinator")

    def _commit(self) -> bool:
        """Commit, unless the control is still about to make its coordinators: then this client gives up at
        once.
        """
        offsets = [TopicPartition(self.topic, 0, 4), TopicPartition(self.topic, 1, 10, "a word")]
        with self.consumer() as consumer:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                if error.args[0].name() != "NOT_COORDINATOR":
                    raise
                return False
        return True

    @contextmanager
    def consumer(self) -> Iterator[Any]:
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": self.name,
            "client.id": "a-client",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        try:
            yield consumer
        finally:
            consumer.close()

    @contextmanager
    def member(self) -> Iterator[Any]:
        """A member of the group that has both partitions."""
        with self.consumer() as consumer:
            consumer.subscribe([self.topic])
            wait_until(lambda: consumer.poll(0.1) is not None, "the member reads")
            yield consumer

    def committed(self) -> dict[int, int]:
        with self.consumer() as consumer:
            asked = [TopicPartition(self.topic, partition) for partition in (0, 1)]
            return {found.partition: found.offset for found in consumer.committed(asked, 20)}


@pytest.fixture
def group(broker: BrokerProcess) -> Group:
    return Group(broker)


@pytest.fixture
def tools(broker: BrokerProcess) -> Tools:
    return Tools(broker.bootstrap)


def rows(result: ToolResult) -> list[dict[str, str]]:
    """The table that the tool printed: a dictionary per row, by the words of its head."""
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    head = next(index for index, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


def test_the_groups_tool_lists_and_describes_an_empty_group_with_its_lag(tools: Tools, group: Group) -> None:
    assert group.name in tools.run("consumer-groups", "--list").stdout.split()
    result = tools.run("consumer-groups", "--describe", "--group", group.name)
    assert "has no active members" in result.everything
    found = {
        row["PARTITION"]: (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows(result)
    }
    assert found == {"0": ("4", "10", "6"), "1": ("10", "10", "0")}
    state = rows(tools.run("consumer-groups", "--describe", "--group", group.name, "--state"))
    assert "Empty" in state[0].values()


def test_the_groups_tool_describes_members_and_refuses_to_reset_or_delete_under_them(
    tools: Tools, group: Group
) -> None:
    with group.member():
        described = rows(tools.run("consumer-groups", "--describe", "--group", group.name))
        assert {row["CLIENT-ID"] for row in described} == {"a-client"}
        assert {row["HOST"] for row in described} == {"/127.0.0.1"}
        members = rows(
            tools.run("consumer-groups", "--describe", "--group", group.name, "--members", "--verbose")
        )
        assert [row["#PARTITIONS"] for row in members] == ["2"]
        state = rows(tools.run("consumer-groups", "--describe", "--group", group.name, "--state"))
        assert {"range", "Stable", "1"} <= set(state[0].values())
        reset = (
            "--reset-offsets",
            "--group",
            group.name,
            "--topic",
            group.topic,
            "--to-earliest",
            "--execute",
        )
        refused = run_tool("consumer-groups", *reset, "--bootstrap-server", tools.bootstrap)
        assert "inactive" in refused.everything
        refused = run_tool(
            "consumer-groups", "--delete", "--group", group.name, "--bootstrap-server", tools.bootstrap
        )
        assert "GroupNotEmptyException" in refused.everything
    assert group.committed() == {0: 4, 1: 10}


def test_the_groups_tool_resets_offsets_to_places_shifts_and_times(tools: Tools, group: Group) -> None:
    reset = ("--reset-offsets", "--group", group.name, "--topic", group.topic)
    planned = rows(tools.run("consumer-groups", *reset, "--to-latest", "--dry-run"))
    assert {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in planned} == {0: 10, 1: 10}
    assert group.committed() == {0: 4, 1: 10}
    for how, expected in (
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-offset", "7"), {0: 7, 1: 7}),
        (("--shift-by", "-2"), {0: 5, 1: 5}),
        (("--to-datetime", "2020-01-01T00:00:00.000"), {0: 0, 1: 0}),
    ):
        tools.run("consumer-groups", *reset, *how, "--execute")
        assert group.committed() == expected


def test_the_groups_tool_deletes_offsets_and_groups(tools: Tools, group: Group) -> None:
    where = ("--group", group.name, "--topic", f"{group.topic}:0")
    tools.run("consumer-groups", "--delete-offsets", *where)
    described = rows(tools.run("consumer-groups", "--describe", "--group", group.name))
    assert [row["PARTITION"] for row in described] == ["1"]
    deleted = tools.run("consumer-groups", "--delete", "--group", group.name)
    assert "was successful" in deleted.stdout
    assert group.name not in tools.run("consumer-groups", "--list").stdout.split()
    gone = run_tool(
        "consumer-groups", "--describe", "--group", group.name, "--bootstrap-server", tools.bootstrap
    )
    assert "GroupIdNotFoundException" in gone.everything


def printed_offsets_topic(tools: Tools, group: Group, formatter: str) -> list[dict[str, Any]]:
    """What the console consumer prints of this group's records: one JSON document after the other, with
    nothing between.
    """
    partition = partition_of(group.name, PARTITIONS)
    count = sum(1 for _ in records(tools.bootstrap, partition))
    where = ("--topic", OFFSETS_TOPIC, "--partition", str(partition), "--offset", "earliest")
    limits = ("--max-messages", str(count), "--timeout-ms", "10000")
    printed = tools.run(
        "console-consumer", *where, *limits, "--formatter", f"{FORMATTERS}.{formatter}"
    ).stdout
    found, position = [], 0
    while position < len(printed.rstrip()):
        document, position = json.JSONDecoder().raw_decode(printed, position)
        found.append(document)
    return [document for document in found if document["key"]["data"]["group"] == group.name]


def test_the_console_consumer_prints_our_offset_commits(tools: Tools, group: Group) -> None:
    first, second = printed_offsets_topic(tools, group, "OffsetsMessageFormatter")
    assert first["key"] == {
        "type": 1,
        "data": {"group": group.name, "topic": group.topic, "partition": 0},
    }
    assert (first["value"]["version"], first["value"]["data"]["offset"]) == (4, 4)
    assert first["value"]["data"].keys() == {
        "offset",
        "leaderEpoch",
        "metadata",
        "commitTimestamp",
        "topicId",
    }
    assert second["value"]["data"]["metadata"].startswith("a word")  # librdkafka adds a byte to it


def test_the_console_consumer_prints_our_groups(tools: Tools, group: Group) -> None:
    with group.member():
        pass
    stable, empty = printed_offsets_topic(tools, group, "GroupMetadataMessageFormatter")
    assert (stable["key"]["type"], stable["value"]["version"]) == (2, 3)
    data = stable["value"]["data"]
    (member,) = data["members"]
    assert (data["protocolType"], data["generation"], data["protocol"]) == ("consumer", 1, "range")
    assert data["leader"] == member["memberId"]
    assert (member["clientId"], member["clientHost"]) == ("a-client", "/127.0.0.1")
    data = empty["value"]["data"]
    assert (data["generation"], data["protocol"], data["leader"], data["members"]) == (2, None, None, [])


def test_the_dump_tool_decodes_our_offsets_topic(tools: Tools, group: Group) -> None:
    with group.member():
        pass
    directory = group.broker.data / f"{OFFSETS_TOPIC}-{partition_of(group.name, PARTITIONS)}"
    files = ",".join(str(file) for file in sorted(directory.glob("*.log")))
    result = run_tool("dump-log", "--offsets-decoder", "--files", files)
    assert result.status == 0, result.everything
    assert "isvalid: false" not in result.stdout
    assert re.search(
        rf'"group":"{group.name}","topic":"{group.topic}","partition":1.*"offset":10', result.stdout
    )
    assert re.search(rf'"group":"{group.name}".*"protocol":"range"', result.stdout)
