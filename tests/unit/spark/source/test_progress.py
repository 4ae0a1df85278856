"""Progress that others see: which offsets count, and that a failure harms nothing (PIPE-6)."""

import logging
import pickle

import pytest

from ottla.model import TopicPartition
from ottla.spark import QueryGroups
from ottla.spark.source.progress import GroupProgress, merged_offsets

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_the_offsets_of_all_sources_that_read_topics_count() -> None:
    ends = ['{"a":{"0":5}}', '{"a": {"0": 3, "1": 7}}', '{"logOffset":4}', "17", None, "no json"]
    assert merged_offsets(ends) == {A0: 3, A1: 7}


def test_offsets_may_come_as_objects_too() -> None:
    assert merged_offsets([{"a": {"0": 5}}]) == {A0: 5}


def test_a_failure_is_told_once_and_not_tried_at_every_batch(caplog: pytest.LogCaptureFixture) -> None:
    progress = GroupProgress("127.0.0.1:1", "mill")
    with caplog.at_level(logging.WARNING):
        for offset in range(3):
            progress.commit({A0: offset})
    assert [each.levelname for each in caplog.records if each.name == "ottla.spark.source.progress"] == [
        "WARNING"
    ]
    progress.close()


def test_a_listener_can_travel() -> None:
    """Spark Connect sends it to the server."""
    assert isinstance(pickle.loads(pickle.dumps(QueryGroups("here:9092"))), QueryGroups)
