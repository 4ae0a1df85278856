"""The program whose classes are kept (`class_archive`): a short tour of what pipelines and audits do, in a
JVM of its own.

    python -m ottla.spark.runtime.class_training DIRECTORY JVM-OPTION...

It writes below the directory only. The JVM writes its archive when it ends, and is waited for.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.spark.runtime.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_END_DEADLINE_S: Final = 500.0
_ORDERS: Final = """
SELECT id AS `offset`, CAST(id % 3 AS INT) AS `partition`, timestamp_seconds(id) AS `timestamp`,
       to_json(named_struct('order', id, 'customer', id % 7)) AS value
FROM range(1000)
"""
_REPORT: Final = """
SELECT window(timestamp, '1 minute') AS period, order.customer, count(*) AS orders, max(`offset`) AS newest, approx_count_distinct(value) AS distinct
FROM parsed JOIN (SELECT DISTINCT customer AS known FROM customers) ON order.customer = known
GROUP BY 1, 2 ORDER BY orders DESC
"""


def main(arguments: list[str]) -> None:
    directory, options = Path(arguments[0]), arguments[1:]
    spark = session(
        "ottla-archive",
        "local[2]",
        **{
            "spark.driver.extraJavaOptions": " ".join(options),
            "spark.sql.warehouse.dir": directory / "warehouse",
            "spark.local.dir": directory / "local",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": "0",
        },
    )
    tables(spark, directory)
    streams(spark, directory)
    end(spark)


def tables(spark: SparkSession, directory: Path) -> None:
    """Batch queries: Parquet, JSON, SQL with joins and windows, Python workers with Arrow."""
    orders = str(directory / "orders")
    spark.sql(_ORDERS).mapInArrow(
        lambda batches: batches, "offset long, partition int, timestamp timestamp, value string"
    ).write.parquet(orders)
    read = spark.read.parquet(orders)
    read.selectExpr(
        "*", "from_json(value, 'order BIGINT, customer BIGINT') AS order"
    ).createOrReplaceTempView("parsed")
    spark.sql("CREATE TABLE customers USING parquet AS SELECT order.customer FROM parsed")
    spark.sql(_REPORT).collect()


def streams(spark: SparkSession, directory: Path) -> None:
    """A streaming query with state, to files."""
    source = spark.readStream.schema("offset long, partition int, timestamp timestamp, value string").parquet(
        str(directory / "orders")
    )
    counted = source.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(
        ["partition", "offset"]
    )
    query = (
        counted.writeStream.format("parquet")
        .option("path", str(directory / "copied"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def end(spark: SparkSession) -> None:
    """End the JVM in its own time: what it saw is written now."""
    from pyspark import SparkContext

    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(_END_DEADLINE_S)


if __name__ == "__main__":
    os.environ.pop("SPARK_REMOTE", None)
    main(sys.argv[1:])
