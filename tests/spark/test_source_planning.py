"""The ranges that a batch query plans to read: each option against a real broker, without Spark's machine."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan
from tests.spark.conftest import NewTopic

from ottla.blocking import Admin
from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.source.batch_plan import planned_ranges
from ottla.spark.source.batch_reader import OttlaBatchReader
from ottla.spark.source.plan.data_loss import DataLossError
from ottla.spark.source.plan.filters import Wanted, wanted
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.options import source_options
from ottla.spark.source.tasks import RangePartition
from ottla.spark.source.topics import ClusterError, TopicOffsets
from ottla.testing import EmbeddedBroker

Planned: TypeAlias = Callable[..., list[str]]

NOON_MS = 1_794_744_000_000
QUICKLY = {"fetchOffset.retryIntervalMs": "1", "fetchOffset.numRetries": "2"}


@pytest.fixture
def planned(broker: EmbeddedBroker) -> Planned:
    """`planned(subscribe="orders", ...)`: the ranges, as text."""

    def ranges(*filters: Filter, **options: Any) -> list[str]:
        given = {"kafka.bootstrap.servers": broker.bootstrap, **QUICKLY}
        parsed = source_options({**given, **{name: str(value) for name, value in options.items()}})
        topics = TopicOffsets(parsed)
        try:
            found: list[OffsetRange] = planned_ranges(parsed, wanted(filters)[0], topics)
        finally:
            topics.close()
        return [str(each) for each in found]

    return ranges


def tasks(broker: EmbeddedBroker, **options: Any) -> list[OffsetRange]:
    """The partitions that the reader hands to Spark."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, **QUICKLY, **options}
    found = OttlaBatchReader(source_options(given)).partitions()
    return [each.value for each in found if isinstance(each, RangePartition)]


def test_three_ways_to_say_what_is_read(planned: Planned, new_topic: NewTopic) -> None:
    one = new_topic(2, values=[b"x"] * 4, stem="ways-one")
    two = new_topic(1, values=[b"x"] * 3, stem="ways-two")
    both = [f"{one}-0 [0, 2)", f"{one}-1 [0, 2)", f"{two}-0 [0, 3)"]
    assert planned(subscribe=f"{two}, {one}") == both
    assert planned(subscribePattern="ways-(one|two)") == both
    assert planned(subscribePattern="^ways-two") == [f"{two}-0 [0, 3)"]
    assert planned(assign=json.dumps({one: [1]})) == [f"{one}-1 [0, 2)"]


def test_offsets_of_both_sides(planned: Planned, new_topic: NewTopic) -> None:
    topic = new_topic(2, values=[b"x"] * 10)
    starts = json.dumps({topic: {"0": 2, "1": -2}})
    ends = json.dumps({topic: {"0": 4, "1": -1}})
    assert planned(subscribe=topic, startingOffsets=starts, endingOffsets=ends) == [
        f"{topic}-0 [2, 4)",
        f"{topic}-1 [0, 5)",
    ]
    assert planned(subscribe=topic, startingOffsets="earliest", endingOffsets="latest") == [
        f"{topic}-0 [0, 5)",
        f"{topic}-1 [0, 5)",
    ]


def test_an_empty_topic_is_no_error_and_no_task(broker: EmbeddedBroker, new_topic: NewTopic) -> None:
    assert tasks(broker, subscribe=new_topic(2)) == []


def test_timestamps_of_both_sides(planned: Planned, new_topic: NewTopic) -> None:
    topic = new_topic(
        2, records=[{"value": b"x", "partition": at % 2, "timestamp_ms": NOON_MS + at} for at in range(10)]
    )
    since, until = NOON_MS + 4, NOON_MS + 8
    assert planned(subscribe=topic, startingTimestamp=since, endingTimestamp=until) == [
        f"{topic}-0 [2, 4)",
        f"{topic}-1 [2, 4)",
    ]
    each = {
        "startingOffsetsByTimestamp": {"0": since, "1": NOON_MS},
        "endingOffsetsByTimestamp": {"0": NOON_MS + 99, "1": until},
    }
    options = {name: json.dumps({topic: times}) for name, times in each.items()}
    assert planned(subscribe=topic, **options) == [f"{topic}-0 [2, 5)", f"{topic}-1 [0, 4)"]
    # One timestamp for all goes before one for each, and both before offsets.
    assert planned(subscribe=topic, startingTimestamp=since, startingOffsets="earliest", **options) == [
        f"{topic}-0 [2, 5)",
        f"{topic}-1 [2, 4)",
    ]


def test_a_start_later_than_every_record_is_an_error_or_the_end(
    planned: Planned, new_topic: NewTopic
) -> None:
    topic = new_topic(1, records=[{"value": b"x", "timestamp_ms": NOON_MS}])
    late = {"subscribe": topic, "startingTimestamp": NOON_MS + 1}
    with pytest.raises(
        ClusterError, match=rf"No record is as late as .* {topic}-0 \({NOON_MS + 1} ms\).*Strategy' to latest"
    ):
        planned(**late)
    assert planned(**late, startingOffsetsByTimestampStrategy="latest") == []


def test_more_tasks_than_partitions(broker: EmbeddedBroker, new_topic: NewTopic) -> None:
    topic = new_topic(2, values=[b"x"] * 20)
    assert (
        len(tasks(broker, subscribe=topic, minPartitions="5")) == 6
    )  # rounded per partition, as in Spark's Kafka source
    sizes = [each.size for each in tasks(broker, subscribe=topic, maxRecordsPerPartition="4")]
    assert sizes == [3, 3, 4, 3, 3, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "not-there"}, "Topic 'not-there' does not exist: create it or check the name."),
        ({"subscribe": "not there!"}, "'not there!' cannot be the name of a topic"),
        (
            {"subscribePattern": "^zebra.*"},
            "No topic matches 'subscribePattern' '^zebra.*': create one or check the pattern.",
        ),
        ({"assign": '{"not-there":[0]}'}, "Topic 'not-there' does not exist"),
    ],
)
def test_what_is_not_there(planned: Planned, options: dict[str, str], said: str) -> None:
    with pytest.raises(ClusterError, match=re.escape(said)):
        planned(**options)


def test_partitions_must_fit_the_topic(planned: Planned, new_topic: NewTopic) -> None:
    topic = new_topic(2, values=[b"x"] * 10)
    with pytest.raises(
        ClusterError,
        match=f"'assign' names partitions that do not exist: {topic}-7. There are: {topic}-0, {topic}-1",
    ):
        planned(assign=json.dumps({topic: [0, 7]}))
    with pytest.raises(
        ClusterError,
        match=f"'startingOffsets' must name every partition and no other: {topic}-1 not named.*-2 for earliest",
    ):
        planned(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}}))
    with pytest.raises(ClusterError, match=f"'endingOffsets' must name .*: {topic}-2 not read by this query"):
        planned(subscribe=topic, endingOffsets=json.dumps({topic: {"0": 1, "1": 1, "2": 1}}))
    with pytest.raises(
        ClusterError, match=f"'startingOffsetsByTimestamp' must name .*: {topic}-1 not named.$"
    ):
        planned(subscribe=topic, startingOffsetsByTimestamp=json.dumps({topic: {"0": 1}}))


def test_offsets_outside_of_what_is_there_are_data_loss(
    planned: Planned, broker: EmbeddedBroker, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(1, values=[b"x"] * 10)
    with Admin(broker.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    early = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 1}})}
    late = {"subscribe": topic, "endingOffsets": json.dumps({topic: {"0": 99}})}
    with pytest.raises(
        DataLossError,
        match=f"{topic}-0 is to be read from offset 1, and begins at 4. .*'failOnDataLoss' to false",
    ):
        planned(**early)
    with pytest.raises(DataLossError, match=f"{topic}-0 is to be read up to offset 99, and ends at 10."):
        planned(**late)
    assert planned(**early, failOnDataLoss="false") == [f"{topic}-0 [4, 10)"]
    assert planned(**late, failOnDataLoss="false") == [f"{topic}-0 [4, 10)"]
    assert caplog.text.count("goes on without them") == 2
    assert planned(subscribe=topic) == [f"{topic}-0 [4, 10)"]
    with pytest.raises(
        OptionError, match=f"The starting offset 50 of {topic}-0 is after its ending offset 10."
    ):
        planned(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 50}}))


def test_an_address_where_nobody_listens_is_one_error_in_a_short_time() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(
            ClusterError,
            match=rf"^Cannot reach the brokers at {address} \(option 'kafka.bootstrap.servers'\).*Check the address",
        ):
            OttlaBatchReader(
                source_options({"kafka.bootstrap.servers": address, "subscribe": "a"})
            ).partitions()
    assert time.monotonic() - began < 10


# ---- filters


@pytest.mark.parametrize(
    ("filters", "ranges"),
    [
        ([EqualTo(("partition",), 1)], ["1 [0, 10)"]),
        ([EqualTo(("topic",), "no")], []),
        ([GreaterThanOrEqual(("offset",), 4), LessThan(("offset",), 6)], ["0 [4, 6)", "1 [4, 6)"]),
        ([In(("offset",), (3, 8)), EqualTo(("partition",), 0)], ["0 [3, 4)", "0 [8, 9)"]),
        ([GreaterThan(("offset",), 100)], []),
    ],
)
def test_filters_narrow_what_is_planned(
    planned: Planned, new_topic: NewTopic, filters: list[Filter], ranges: list[str]
) -> None:
    topic = new_topic(2, values=[b"x"] * 20)
    assert planned(*filters, subscribe=topic) == [f"{topic}-{each}" for each in ranges]


def test_a_filter_spares_the_error_about_what_it_does_not_want(planned: Planned, new_topic: NewTopic) -> None:
    topic = new_topic(1, values=[b"x"] * 10)
    late = json.dumps({topic: {"0": 99}})
    assert planned(LessThan(("offset",), 5), subscribe=topic, endingOffsets=late) == [f"{topic}-0 [0, 5)"]


def test_times_begin_at_the_first_record_that_is_late_enough(
    broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    """Timestamps go back and forth; what is after the first late record is for Spark to filter."""
    times = [0, 5, 3, 9, 4]
    topic = new_topic(1, records=[{"value": b"x", "timestamp_ms": NOON_MS + at} for at in times])
    options = source_options({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
    topics = TopicOffsets(options)
    try:
        assert planned_ranges(options, Wanted(since_ms=NOON_MS + 4), topics) == [OffsetRange(topic, 0, 1, 5)]
        assert planned_ranges(options, Wanted(since_ms=NOON_MS + 6), topics) == [OffsetRange(topic, 0, 3, 5)]
        assert planned_ranges(options, Wanted(since_ms=NOON_MS + 10), topics) == []
        assert planned_ranges(options, Wanted(since_ms=-5), topics) == [OffsetRange(topic, 0, 0, 5)]
    finally:
        topics.close()
