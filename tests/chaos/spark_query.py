"""The program that is killed: a streaming query from a topic to a Parquet table, or exactly once to another topic,
as a user would write it.

python -m tests.chaos.spark_query BOOTSTRAP TOPIC TABLE CHECKPOINT MASTER
python -m tests.chaos.spark_query BOOTSTRAP TOPIC topic:OTHER CHECKPOINT MASTER

It runs until its standard input ends, and ends with 1 and the reason if the query fails by itself.
"""

from __future__ import annotations

import sys
import threading

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.chaos.spark_sink import APP_ID

from ottla.spark.runtime.sessions import session

# Small enough that what a long fault leaves behind comes in several batches.
_MOST_PER_BATCH = 2_000
TO_TOPIC = "topic:"


def records(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", _MOST_PER_BATCH).load()


def start(spark: SparkSession, bootstrap: str, topic: str, table: str, checkpoint: str) -> StreamingQuery:
    _, is_topic, target = table.partition(TO_TOPIC)
    if is_topic:
        return _start_sink(records(spark, bootstrap, topic), bootstrap, target, checkpoint)
    columns = ("partition", "offset", "timestamp", "key", "value")
    writer = records(spark, bootstrap, topic).select(*columns).writeStream.format("parquet")
    return writer.queryName("chaos").option("checkpointLocation", checkpoint).start(table)


def _start_sink(rows: DataFrame, bootstrap: str, target: str, checkpoint: str) -> StreamingQuery:
    """Each record has the place that it came from in a header."""
    place = "array(named_struct('key', 'from', 'value', binary(concat(partition, ':', offset)))) as headers"
    writer = rows.selectExpr("key", "value", place).writeStream.format("ottla").queryName("chaos")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    writer = writer.option("delivery", "exactly-once").option("txnAppId", APP_ID)
    return writer.option("checkpointLocation", checkpoint).start()


def _stop_with_input(query: StreamingQuery) -> None:
    sys.stdin.read()
    query.stop()


def main(arguments: list[str]) -> int:
    bootstrap, topic, table, checkpoint, master = arguments
    spark = session("chaos", master, **{"spark.executor.memory": "512m", "spark.driver.memory": "640m"})
    query = start(spark, bootstrap, topic, table, checkpoint)
    threading.Thread(target=_stop_with_input, args=(query,), daemon=True).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        print(f"THE QUERY FAILED: {error}", flush=True)
        return 1
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
