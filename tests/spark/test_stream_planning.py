"""The ranges that a streaming query plans to read, batch by batch: the reader as Spark calls it, against a
real broker.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType
from tests.spark.conftest import NewTopic, produce

from ottla import testing
from ottla.blocking import Admin
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.source.columns import columns
from ottla.spark.source.plan.data_loss import DataLossError
from ottla.spark.source.stream_reader import OttlaStreamReader
from ottla.spark.source.tasks import RangePartition
from ottla.spark.source.topics import ClusterError
from ottla.testing import EmbeddedBroker

Opened: TypeAlias = Callable[..., OttlaStreamReader]

EVERYTHING = ReadAllAvailable()
QUICKLY = {"fetchOffset.retryIntervalMs": "1", "commitProgress": "false"}


@pytest.fixture
def opened(broker: EmbeddedBroker) -> Iterator[Opened]:
    """`opened(subscribe="orders", ...)`: a reader as Spark makes one when a query starts."""
    readers: list[OttlaStreamReader] = []

    def make(**options: Any) -> OttlaStreamReader:
        given = {"kafka.bootstrap.servers": broker.bootstrap, **QUICKLY, **options}
        text = {name.lower(): str(value) for name, value in given.items()}
        include_headers = text.get("includeheaders") == "true"
        readers.append(OttlaStreamReader(text, columns(include_headers=include_headers)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def ranges(reader: OttlaStreamReader, start: Any, end: Any) -> list[str]:
    return [str(each.value) for each in reader.partitions(start, end) if isinstance(each, RangePartition)]


def add(broker: EmbeddedBroker, topic: str, count: int, partition: int = 0) -> None:
    produce(broker.bootstrap, topic, [{"value": b"x", "partition": partition}] * count)


def test_batch_after_batch(opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic) -> None:
    topic = new_topic(2, values=[b"x"] * 4)
    reader = opened(subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert json.dumps(start) == json.dumps({topic: {"0": 0, "1": 0}})
    assert isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)
    end = reader.latestOffset(start, EVERYTHING)
    assert ranges(reader, start, end) == [f"{topic}-0 [0, 2)", f"{topic}-1 [0, 2)"]
    assert reader.latestOffset(end, EVERYTHING) == end
    assert reader.partitions(end, end) == []
    add(broker, topic, 3, partition=1)
    later = reader.latestOffset(end, EVERYTHING)
    assert ranges(reader, end, later) == [f"{topic}-1 [2, 5)"]
    assert reader.reportLatestOffset() == later


@pytest.mark.parametrize("starting", ["latest", "by offsets"])
def test_a_query_that_starts_at_the_end_has_an_empty_first_batch(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic, starting: str
) -> None:
    """Spark repeats a first batch that was not finished from the initial offset, and asks for that again."""
    topic = new_topic(1, values=[b"x"] * 4)
    options = {"subscribe": topic}
    if starting == "by offsets":
        options["startingOffsets"] = json.dumps({topic: {"0": -1}})
    reader = opened(**options)
    start = reader.initialOffset()
    add(broker, topic, 3)
    first = reader.latestOffset(start, EVERYTHING)
    assert first == start == {topic: {"0": 4}}

    restarted = opened(**options)  # the first batch was in the log, and the driver died
    assert (again := restarted.initialOffset()) == {topic: {"0": 7}}
    assert restarted.partitions(again, first) == []
    restarted.commit(first)
    second = restarted.latestOffset(first, EVERYTHING)
    assert ranges(restarted, first, second) == [f"{topic}-0 [4, 7)"]


def test_a_first_batch_that_is_repeated_may_meet_new_partitions(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1, values=[b"x"] * 4)
    with Admin(broker.bootstrap) as admin:
        admin.create_partitions({topic: 2})
    reader = opened(subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert ranges(reader, start, {topic: {"0": 4}}) == [f"{topic}-0 [0, 4)"]


def test_limits_are_shared_among_partitions(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    add(broker, topic, 30, partition=0)
    add(broker, topic, 10, partition=1)
    reader = opened(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=8)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    start = reader.initialOffset()
    assert reader.latestOffset(start, limit) == {topic: {"0": 6, "1": 2}}
    # Spark may ask for everything, whatever the options say.
    assert reader.latestOffset(start, EVERYTHING) == {topic: {"0": 30, "1": 10}}
    assert reader.reportLatestOffset() == {topic: {"0": 30, "1": 10}}


def batches(reader: OttlaStreamReader, limit: ReadLimit, most: int = 50) -> list[int]:
    """The sizes of all batches until there is nothing more."""
    sizes: list[int] = []
    start = reader.initialOffset()
    for _ in range(most):
        end = reader.latestOffset(start, limit)
        if end == start:
            return sizes
        found = reader.partitions(start, end)
        sizes.append(sum(each.value.size for each in found if isinstance(each, RangePartition)))
        reader.commit(end)
        start = end
    raise AssertionError(f"no end after {most} batches: {sizes}")


def test_available_now_reads_what_was_there_when_it_began(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1, values=[b"x"] * 10)
    reader = opened(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4, minOffsetsPerTrigger=3
    )
    reader.prepareForTriggerAvailableNow()
    add(broker, topic, 100)
    assert batches(reader, reader.getDefaultReadLimit()) == [4, 4, 2]


def test_available_now_may_begin_behind_its_target(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1, values=[b"x"] * 4)
    reader = opened(subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    add(broker, topic, 3)
    start = reader.initialOffset()
    assert start == reader.latestOffset(start, EVERYTHING) == {topic: {"0": 7}}
    reader.commit(start)
    assert reader.latestOffset(start, EVERYTHING) == start


def test_a_minimum_waits_until_there_is_enough_or_the_time_is_over(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1, values=[b"x"])
    patient = opened(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5, maxTriggerDelay="1h"
    )
    hasty = opened(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5, maxTriggerDelay="0s")
    limit = patient.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    for reader in (patient, hasty):
        assert reader.latestOffset(reader.initialOffset(), limit) == {
            topic: {"0": 1}
        }  # the first does not wait
    start = {topic: {"0": 1}}
    add(broker, topic, 3)
    assert patient.latestOffset(start, limit) == start
    assert hasty.latestOffset(start, limit) == {topic: {"0": 4}}
    add(broker, topic, 2)
    assert patient.latestOffset(start, limit) == {topic: {"0": 6}}


def test_a_minimum_and_a_maximum_hold_together(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1, values=[b"x"] * 10)
    reader = opened(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=3, maxOffsetsPerTrigger=8
    )
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    assert first == {topic: {"0": 8}}
    assert reader.latestOffset(first, limit) == first  # two are left, three are wanted
    add(broker, topic, 1)
    assert reader.latestOffset(first, limit) == {topic: {"0": 11}}


def test_more_tasks_than_partitions(opened: Opened, new_topic: NewTopic) -> None:
    topic = new_topic(1, values=[b"x"] * 10)
    end = {topic: {"0": 10}}
    assert len(ranges(opened(subscribe=topic, minPartitions=5), {topic: {"0": 0}}, end)) == 5
    assert len(ranges(opened(subscribe=topic, maxRecordsPerPartition=3), {topic: {"0": 0}}, end)) == 4


# ---- partitions and topics that come and go


def test_new_partitions_are_read_from_their_beginning(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1, values=[b"x"] * 2)
    reader = opened(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4)
    start = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    with Admin(broker.bootstrap) as admin:
        admin.create_partitions({topic: 2})
    add(broker, topic, 6, partition=1)
    end = reader.latestOffset(start, ReadMaxRows(4))
    assert end == {topic: {"0": 2, "1": 4}}
    assert ranges(reader, start, end) == [f"{topic}-1 [0, 4)"]


def test_new_topics_of_a_pattern_are_read_from_their_beginning(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    one = new_topic(1, values=[b"x"] * 2, stem="coming")
    reader = opened(subscribePattern="^coming-")
    start = reader.initialOffset()
    two = new_topic(1, values=[b"x"] * 3, stem="coming")
    assert reader.latestOffset(start, EVERYTHING) == start
    end = reader.latestOffset(start, EVERYTHING)
    assert ranges(reader, start, end) == [f"{two}-0 [0, 3)"]
    assert start == {one: {"0": 2}}


def test_a_pattern_may_wait_for_its_first_topic(opened: Opened, new_topic: NewTopic) -> None:
    reader = opened(subscribePattern="^awaited-")
    start = reader.initialOffset()
    assert start == reader.latestOffset(start, EVERYTHING) == {}
    assert reader.partitions(start, start) == []
    topic = new_topic(1, values=[b"x"] * 3, stem="awaited")
    assert ranges(reader, start, reader.latestOffset(start, EVERYTHING)) == [f"{topic}-0 [0, 3)"]


def test_a_new_partition_that_does_not_begin_at_zero_has_lost_data(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(2, values=[b"x"] * 10)
    with Admin(broker.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 1): 3})
    start, end = {topic: {"0": 5}}, {topic: {"0": 5, "1": 5}}
    with pytest.raises(
        DataLossError, match=f"{topic}-1 is new to this query, and begins at offset 3 instead of 0"
    ):
        opened(subscribe=topic).partitions(start, end)
    assert ranges(opened(subscribe=topic, failOnDataLoss="false"), start, end) == [f"{topic}-1 [3, 5)"]


def test_a_topic_that_is_deleted_is_data_loss(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    kept, gone = new_topic(1, values=[b"x"] * 3, stem="kept"), new_topic(1, values=[b"x"] * 3, stem="gone")
    strict = opened(subscribe=f"{kept},{gone}", startingOffsets="earliest")
    lenient = opened(subscribe=f"{kept},{gone}", startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    lenient.initialOffset()
    for reader in (strict, lenient):
        reader.commit(start)
    with Admin(broker.bootstrap) as admin:
        admin.delete_topics([gone])
    end = strict.latestOffset(start, EVERYTHING)
    assert end == {kept: {"0": 3}}
    with pytest.raises(DataLossError, match=f"^Some data may have been lost: {gone}-0 not there any more"):
        strict.partitions(start, end)
    assert ranges(lenient, start, end) == [f"{kept}-0 [0, 3)"]
    assert f"goes on without them: {gone}-0" in caplog.text


def test_a_topic_that_was_created_anew_is_data_loss(opened: Opened, new_topic: NewTopic) -> None:
    topic = new_topic(1, values=[b"x"] * 3)
    start, end = {topic: {"0": 9}}, {topic: {"0": 3}}
    with pytest.raises(
        DataLossError, match=f"{topic}-0 was read up to offset 9, and ends at 3. Was the topic deleted"
    ):
        opened(subscribe=topic).partitions(start, end)
    assert opened(subscribe=topic, failOnDataLoss="false").partitions(start, end) == []


def test_a_start_beyond_the_end_is_data_loss(opened: Opened, new_topic: NewTopic) -> None:
    topic = new_topic(1, values=[b"x"] * 3)
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 9}})}
    with pytest.raises(DataLossError, match=f"{topic}-0 is to be read from offset 9, and ends at 3."):
        opened(**options).initialOffset()
    assert opened(**options, failOnDataLoss="false").initialOffset() == {topic: {"0": 3}}


def test_partitions_may_be_remembered_for_a_while(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    always = opened(subscribe=topic, startingOffsets="earliest")
    seldom = opened(
        subscribe=topic, startingOffsets="earliest", **{"partition.metadata.cache.ttl.ms": 3_600_000}
    )
    start = {topic: {"0": 0}}
    for reader in (always, seldom):
        assert reader.latestOffset(start, EVERYTHING) == start
    with Admin(broker.bootstrap) as admin:
        admin.create_partitions({topic: 2})
    assert always.latestOffset(start, EVERYTHING) == {topic: {"0": 0, "1": 0}}
    assert seldom.latestOffset(start, EVERYTHING) == start


# ---- what cannot be


def test_mistakes_come_to_light_with_the_first_question(opened: Opened, new_topic: NewTopic) -> None:
    """Spark hides what the making of a reader raises."""
    with pytest.raises(OptionError, match="'endingOffsets' is only for batch queries"):
        opened(subscribe=new_topic(), endingOffsets="latest").getDefaultReadLimit()
    with pytest.raises(ClusterError, match="Topic 'not-there' does not exist"):
        opened(subscribe="not-there").initialOffset()
    with pytest.raises(OptionError, match="columns of a topic"):
        OttlaStreamReader({"bootstrap.servers": "h:1", "subscribe": "a"}, StructType()).initialOffset()


def test_a_reader_that_never_began_ends_in_peace(opened: Opened) -> None:
    opened(subscribe="a", startingOffsets="nonsense").stop()


def test_what_travels_to_executors_reads(opened: Opened, new_topic: NewTopic) -> None:
    topic = new_topic(1, values=[b"one", b"two"])
    reader = opened(subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, EVERYTHING))
    on_executor = pickle.loads(pickle.dumps(reader))
    (batch,) = on_executor.read(pickle.loads(pickle.dumps(partition)))
    assert batch["value"].to_pylist() == [b"one", b"two"]
    assert batch["headers"].to_pylist() == [None, None]


def test_a_broker_that_comes_back_is_waited_for() -> None:
    with testing.broker() as own, ThreadPoolExecutor() as pool:
        own.create_topic("orders", 1)
        options = {"bootstrap.servers": own.bootstrap, "subscribe": "orders", "startingOffsets": "earliest"}
        reader = OttlaStreamReader(options, columns(include_headers=False))
        start = reader.initialOffset()
        own.kill()
        asked = pool.submit(reader.latestOffset, start, EVERYTHING)
        own.restart()
        add(own, "orders", 2)
        assert asked.result(60)["orders"]["0"] in (0, 2)
        assert reader.latestOffset(start, EVERYTHING) == {"orders": {"0": 2}}
        reader.stop()


def test_spark_4_1_asks_only_for_the_end_and_gets_all_there_is(
    opened: Opened, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    """It asks for that before it asks where to begin."""
    topic = new_topic(values=[b"x"] * 3)
    reader = opened(subscribe=topic, startingOffsets="earliest", groupId="old-spark", commitProgress="true")
    end = reader.latestOffset()
    assert ranges(reader, reader.initialOffset(), end) == [f"{topic}-0 [0, 3)"]
    add(broker, topic, 2)
    later = reader.latestOffset()
    assert ranges(reader, end, later) == [f"{topic}-0 [3, 5)"]
    with Admin(broker.bootstrap) as admin:
        assert admin.list_group_offsets("old-spark") == {TopicPartition(topic, 0): CommittedOffset(3)}
