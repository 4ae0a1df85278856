"""OffsetFetch: the answers about committed offsets (GRP-3)."""

from __future__ import annotations

from uuid import UUID

from tests.unit.group.shell import GROUP, Shell

from ottla.group.coordinator import GroupRequestContext
from ottla.group.records import OffsetCommitValue, offset_record
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


def test_a_partition_without_an_offset_is_no_error() -> None:
    shell = Shell()
    shell.commit(5)
    request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic("t", [0, 9])])
    assert shell.ask(request) == OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                "t",
                [
                    OffsetFetchResponsePartition(0, 5, 3, "m"),
                    OffsetFetchResponsePartition(9, -1, -1, ""),
                ],
            )
        ]
    )
    request.group_id = "none"
    assert {item.committed_offset for item in shell.ask(request, 1).topics[0].partitions} == {-1}


def test_null_topics_are_all_that_there_are() -> None:
    shell = Shell()
    shell.commit(5, topic="a")
    shell.commit(6, topic="b", partition=2)
    answer = shell.ask(OffsetFetchRequest(GROUP, None))
    found = {
        (topic.name, item.partition_index): item.committed_offset
        for topic in answer.topics
        for item in topic.partitions
    }
    assert found == {("a", 0): 5, ("b", 2): 6}
    assert shell.ask(OffsetFetchRequest("none", None)).topics == []
    assert shell.ask(OffsetFetchRequest(GROUP, [])).topics == []


def test_several_groups_are_asked_for_at_once_and_a_members_epoch_is_not_looked_at() -> None:
    shell = Shell()
    shell.commit(5, group="a")
    groups = [
        OffsetFetchRequestGroup("a", "m", 7, None),
        OffsetFetchRequestGroup("none", None, -1, [OffsetFetchRequestTopics("t", partition_indexes=[1])]),
    ]
    answer = shell.ask(OffsetFetchRequest(groups=groups), 9)
    assert answer.groups == [
        OffsetFetchResponseGroup(
            "a", [OffsetFetchResponseTopics("t", partitions=[OffsetFetchResponsePartitions(0, 5, 3, "m")])]
        ),
        OffsetFetchResponseGroup(
            "none",
            [OffsetFetchResponseTopics("t", partitions=[OffsetFetchResponsePartitions(1, -1, -1, "")])],
        ),
    ]


def test_an_offset_of_another_topic_of_the_same_name_is_none() -> None:
    shell = Shell()
    value = OffsetCommitValue(5, topic_id=UUID(int=1))
    shell.machine.replay(*offset_record(GROUP, "t", 0, value))

    def fetched(topic_id: UUID) -> int:
        topics = [OffsetFetchRequestTopics("t", topic_id, [0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)])
        decision = shell.machine.command(request, GroupRequestContext(10, "c", "/h", 1), shell.now_ms)
        return int(decision.response.groups[0].topics[0].partitions[0].committed_offset)

    assert [fetched(topic_id) for topic_id in (UUID(int=1), UUID(int=2), ZERO_UUID)] == [5, -1, 5]
