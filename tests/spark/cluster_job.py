"""A job as users have it, which tests run on clusters: rows into a topic, the topic into a table, and what
came of it as JSON.

python tests/spark/cluster_job.py MASTER BOOTSTRAP DIRECTORY [--ship]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla.spark

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2_000


def run(spark: Any, bootstrap: str, directory: Path) -> dict[str, object]:
    address = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(ROWS, numPartitions=4).selectExpr(
        "cast(id % 7 as string) as key", "cast(id as string) as value"
    )
    rows.write.format("ottla").options(topic="orders", **address).mode("append").save()

    stream = spark.readStream.format("ottla").options(
        subscribe="orders", startingOffsets="earliest", **address
    )
    table = (
        stream.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
    )
    table.trigger(availableNow=True).start(str(directory / "table")).awaitTermination()
    found = spark.read.parquet(str(directory / "table"))
    (counted,) = found.selectExpr("count(*)", "count(distinct partition, offset)").collect()
    places = spark.range(4, numPartitions=4).mapInArrow(_place, "at string").collect()
    return {
        "rows": counted[0],
        "distinct": counted[1],
        "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
        "places": sorted({row[0] for row in places}),
        "java": spark._jvm.java.lang.System.getProperty("java.version"),
    }


def _place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which Python and which Ottla a task runs with."""
    import sys

    import pyarrow as pa

    import ottla

    for _ in batches:
        pass
    yield pa.record_batch({"at": [f"{sys.executable} {ottla.__file__}"]})


def main(master: str, bootstrap: str, directory: str, *flags: str) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        # Tests look at both executors.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.shuffle.partitions": "1",
    }
    spark = ottla.spark.session("cluster-job", master, **settings)
    if "--ship" in flags:
        ottla.spark.ship(spark)
    print(json.dumps(run(spark, bootstrap, Path(directory))))
    ottla.spark.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
