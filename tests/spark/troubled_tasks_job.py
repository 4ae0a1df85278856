"""A job that writes to a topic exactly once while its tasks are in trouble, which a test runs on a local cluster:

retried       a task fails when it has written a part of its rows, and runs again
stage         a task ends its executor when it has written a part of its rows; the rows that a shuffle has left there
              are gone, so the stage before runs again as well

Speculative copies are no part of it: Spark starts none on a machine that runs the task already.

python tests/spark/troubled_tasks_job.py BOOTSTRAP TOPIC DIRECTORY
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import ottla.spark

if TYPE_CHECKING:
    import pyarrow as pa

Step = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

TROUBLES: Final = ("retried", "stage")
TASKS: Final = 3
# Large rows: a task begins to write when it has some megabytes.
ROWS: Final = 12
_ROW_BYTES: Final = 700_000
_TROUBLED_ROW: Final = 11
_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.adaptive.enabled": "false",
}


def run(spark: Any, bootstrap: str, topic: str, directory: Path) -> None:
    for number, trouble in enumerate(TROUBLES):
        numbers = spark.range(TASKS * ROWS, numPartitions=TASKS)
        if trouble == "stage":
            numbers = numbers.mapInArrow(counted(directory), numbers.schema).repartition(TASKS, "id")
        rows = numbers.selectExpr(
            f"array(named_struct('key', 'row', 'value', binary('{trouble}:' || id))) as headers",
            f"repeat('x', {_ROW_BYTES}) as value",
        )
        troubled = rows.mapInArrow(troubled_by(trouble, directory), rows.schema)
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        options |= {"delivery": "exactly-once", "txnAppId": topic, "txnVersion": str(number)}
        troubled.write.format("ottla").options(**options).mode("append").save()


def counted(directory: Path) -> Step:
    """A step that leaves a file for each attempt of a task."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (directory / f"mapped-{uuid4().hex}").touch()
        yield from batches

    return rows


def troubled_by(trouble: str, directory: Path) -> Step:
    """A step in which the first task that gets so far has the trouble, once."""
    begun = directory / f"{trouble}.begun"

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches, 1):
            if number == _TROUBLED_ROW and not is_taken(begun):
                if trouble == "retried":
                    raise RuntimeError("this attempt fails")
                os.kill(executor_of(os.getpid()), signal.SIGKILL)
            yield batch

    return rows


def is_taken(file: Path) -> bool:
    """Whether somebody else was here before."""
    try:
        file.open("x").close()
    except FileExistsError:
        return True
    return False


def executor_of(pid: int) -> int:
    """The process of Java that a Python worker belongs to."""
    while b"java" not in Path(f"/proc/{pid}/comm").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def main(bootstrap: str, topic: str, directory: Path) -> None:
    spark = ottla.spark.session("troubled-tasks", "local-cluster[2,1,640]", **_SETTINGS)
    run(spark, bootstrap, topic, directory)
    ottla.spark.stop(spark)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
