"""Reassignments under way are listed (CTL-7)."""

import pytest
from tests.unit.controller.cluster import Cluster, topic, topic_on

from ottla.controller.describe.reassignments import list_partition_reassignments
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignableTopic,
)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (None, [("a", 1), ("b", 0)]),
        ([("a", [0, 1, 9])], [("a", 1)]),
        ([("a", [0])], []),
        ([("b", [0]), ("c", [0]), ("unknown", [0])], [("b", 0)]),
        ([("a", [1]), ("a", [1])], [("a", 1)]),
        ([], []),
    ],
)
def test_moves_are_listed_where_they_are_asked_for(
    wanted: list[tuple[str, list[int]]] | None, shown: list[tuple[str, int]]
) -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1], [2]), topic_on("b", [1, 2]), topic("c"))
    moves = [("a", 1, [3]), ("b", 0, [1, 3])]
    cluster.commit(
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(name, [ReassignablePartition(index, replicas)])
                for name, index, replicas in moves
            ]
        )
    )
    named = None if wanted is None else [ListPartitionReassignmentsTopics(*each) for each in wanted]
    response = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(topics=named))
    assert (response.error_code, response.error_message) == (0, None)
    known = {
        ("a", 1): OngoingPartitionReassignment(1, [3, 2], [3], [2]),
        ("b", 0): OngoingPartitionReassignment(0, [1, 3, 2], [3], [2]),
    }
    assert response.topics == [OngoingTopicReassignment(name, [known[name, index]]) for name, index in shown]
