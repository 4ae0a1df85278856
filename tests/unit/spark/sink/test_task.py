from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import ottla.testing
from ottla.model import TopicPartition
from ottla.spark.sink.columns import sink_columns
from ottla.spark.sink.options import sink_options
from ottla.spark.sink.task import chunks, write_task


def batch_of(rows: int, size: int = 100) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"x" * size] * rows, pa.binary())})


def test_small_batches_are_put_together_and_large_ones_are_cut() -> None:
    made = list(chunks([batch_of(10), batch_of(0), batch_of(10), batch_of(1_000)], size_bytes=5_000))
    assert sum(chunk.num_rows for chunk in made) == 1_020
    assert all(chunk.nbytes < 3 * 5_000 for chunk in made)
    assert made[0].num_rows > 20


def test_a_value_larger_than_a_chunk_is_a_chunk() -> None:
    assert [chunk.num_rows for chunk in chunks([batch_of(3, 10_000)], size_bytes=1_000)] == [1, 1, 1]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_every_kind_of_text_and_bytes_that_spark_may_send_is_written(kind: pa.DataType) -> None:
    columns = sink_columns(StructType().add("key", "string").add("value", "string"), "t")
    texts = pa.array([b"a", None, b"ccc"], pa.binary()).cast(kind)
    batch = pa.record_batch({"key": texts, "value": texts}).slice(1)
    with ottla.testing.broker() as broker:
        broker.create_topic("t", 1)
        options = sink_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": "t"})
        assert write_task([batch], options, columns) == {TopicPartition("t", 0): 2}
        assert [(record.key, record.value) for record in broker.records("t")] == [
            (None, None),
            (b"ccc", b"ccc"),
        ]
