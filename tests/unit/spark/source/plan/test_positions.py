"""Whether a start would be another one if it were asked for again."""

import pytest

from ottla.model import TopicPartition
from ottla.spark.source.plan.positions import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Position,
    Strategy,
    depends_on_the_end,
)

A = TopicPartition("a", 0)


@pytest.mark.parametrize(
    ("position", "strategy", "depends"),
    [
        (Earliest(), "error", False),
        (Latest(), "error", True),
        (AtOffsets({A: 5}), "error", False),
        (AtOffsets({A: -2}), "error", False),
        (AtOffsets({A: -1}), "error", True),
        (AtTimestamp(5), "error", False),
        (AtTimestamp(5), "latest", True),
        (AtTimestamps({A: 5}), "latest", True),
    ],
)
def test_only_the_end_of_a_topic_moves_while_nobody_reads(
    position: Position, strategy: Strategy, depends: bool
) -> None:
    assert depends_on_the_end(position, strategy) is depends
