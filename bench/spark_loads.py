"""What `bench.spark` measures: topics as real producers fill them, and the same Spark work with either
connector.

The topics are written once, by librdkafka with its own batching (up to 1 MB or 10,000 records, 5 ms). Keys
are customer numbers; values are records of orders as JSON, cut to an exact size, with names and numbers drawn
at random, so that zstd finds about what it finds in such data. A source's work is the query from its
definition to its end; what it answers is checked.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.processes import cpu_seconds, family

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = 2
MICRO_BATCHES: Final = 4
SIZES: Final = (100, 1024)
CODECS: Final = ("none", "zstd")
RECORDS: Final = {100: 2_400_000, 1024: 800_000}
WRITTEN: Final = {100: 600_000, 1024: 250_000}
# More than a batch holds, so that no batch has the same value twice.
_DISTINCT: Final = 40_000
_WORDS: Final = [
    "espresso",
    "cortado",
    "mocha",
    "latte",
    "filter",
    "flat-white",
    "cold-brew",
    "ristretto",
    "lungo",
    "macchiato",
]


@dataclass(frozen=True, slots=True)
class Figures:
    """One measurement; `start_seconds` is what a stream takes besides its micro-batches."""

    rows: int
    seconds: float
    spark_cpu_seconds: float
    broker_cpu_seconds: float
    start_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the work is done: a session, a broker beside it, and their processes."""

    spark: SparkSession
    bootstrap: str
    broker_pid: int
    spark_pids: tuple[int, ...]


def orders(size: int, seed: int = 7) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values without end, the values of exactly this size."""
    draw = random.Random(seed)
    pool = [(b"%d" % draw.randrange(10**6), _order(draw, size)) for _ in range(_DISTINCT)]
    while True:
        yield from pool


def _order(draw: random.Random, size: int) -> bytes:
    text = ""
    while len(text) < size:
        text += (
            f'{{"order":"{draw.getrandbits(64):016x}","item":"{draw.choice(_WORDS)}","count":{draw.randrange(1, 9)},'
            f'"price":{draw.randrange(100, 999) / 100},"customer":{draw.randrange(10**6)}}}'
        )
    return text[:size].encode()


def create(bootstrap: str, topic: str, retention_bytes: int = -1) -> None:
    """A topic; with a small retention, what is written to it is soon deleted."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"retention.bytes": str(retention_bytes)}
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)


def fill(bootstrap: str, topic: str, size: int, codec: str, records: int) -> None:
    """A topic with so many records, as librdkafka writes them."""
    from confluent_kafka import Producer

    create(bootstrap, topic)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "compression.type": codec,
            "queue.buffering.max.messages": 200_000,
        }
    )
    source = orders(size)
    for number in range(records):
        key, value = next(source)
        while True:
            try:
                producer.produce(topic, value, key, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def read_noop(place: Place, source: str, topic: str, rows: int) -> None:
    """A batch read into Spark's sink that takes every row and does nothing."""
    _batch(place, source, topic).write.format("noop").mode("overwrite").save()


def read_aggregate(place: Place, source: str, topic: str, rows: int) -> None:
    """A batch read into three aggregates."""
    frame = _batch(place, source, topic)
    count, length, last = frame.selectExpr("count(*)", "sum(length(value))", "max(offset)").first() or (
        0,
        0,
        0,
    )
    size = int(topic.split("-")[1])
    assert (count, length, last) == (rows, rows * size, rows // PARTITIONS - 1), (count, length, last)


def read_stream(place: Place, source: str, topic: str, rows: int) -> float:
    """A streaming read of all there is (available now) in some micro-batches, into the sink that does
    nothing.

    Answers how long the micro-batches took, by Spark's own account.
    """
    checkpoint = tempfile.mkdtemp(prefix="ottla-bench-checkpoint-")
    try:
        frame = (
            place.spark.readStream.format(source)
            .option("kafka.bootstrap.servers", place.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", rows // MICRO_BATCHES)
            .load()
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
        assert read == rows, f"{source} read {read} of {rows} rows"
        return float(sum(each["durationMs"]["triggerExecution"] for each in query.recentProgress)) / 1_000
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)


def write_frame(spark: SparkSession, size: int, rows: int) -> DataFrame:
    """Rows to be written, held in Spark's memory."""
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(
        "cast(cast(id * 7919 % 1000000 as string) as binary) as key",
        f"cast(substring(repeat(concat(sha2(cast(id as string), 256), ' ', id), {size // 64 + 1}), 1, {size}) as binary) as value",
    )
    frame = frame.persist()
    frame.count()
    return frame


def write(place: Place, sink: str, frame: DataFrame, topic: str) -> None:
    """A batch write; both sinks are idempotent with acks=all."""
    writer = frame.write.format(sink).mode("append").option("kafka.bootstrap.servers", place.bootstrap)
    writer.option("topic", topic).save()


def place_of(spark: SparkSession, bootstrap: str, broker_pid: int) -> Place:
    """A session of this process, with its JVM."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return Place(spark, bootstrap, broker_pid, (gateway.proc.pid,))


def measured(place: Place, rows: int, work: Any, *arguments: Any) -> Figures:
    """Wall and CPU time of a piece of work, which may tell that only some of it counts."""
    cpu, broker_cpu = _spark_cpu(place), cpu_seconds(place.broker_pid)
    begun = time.perf_counter()
    counted = work(place, *arguments)
    seconds = time.perf_counter() - begun
    spark_cpu, broker_cpu = _spark_cpu(place) - cpu, cpu_seconds(place.broker_pid) - broker_cpu
    if counted is None:
        return Figures(rows, seconds, spark_cpu, broker_cpu)
    return Figures(rows, counted, spark_cpu, broker_cpu, seconds - counted)


def _spark_cpu(place: Place) -> float:
    """Of the JVM and its Python workers, also of those that have ended: Spark starts some for a moment."""
    return sum(_cpu_with_ended(member) for pid in place.spark_pids for member in family(pid))


def _cpu_with_ended(pid: int) -> float:
    with contextlib.suppress(OSError):
        # The fields behind the name in brackets; utime, stime, cutime, cstime are the 14th to 17th.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0  # it ended meanwhile; its parent tells


def _batch(place: Place, source: str, topic: str) -> DataFrame:
    reader = place.spark.read.format(source).option("kafka.bootstrap.servers", place.bootstrap)
    return reader.option("subscribe", topic).load()
