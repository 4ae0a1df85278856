"""A topic into tables of a format, as a user's program does it: appended, upserted, audited. What came of it
is printed as JSON.

python tests/compat/table_format_job.py FORMAT JARS BOOTSTRAP DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ottla.spark
from ottla.blocking import Producer
from ottla.spark import steps
from ottla.spark.audit.job import audit
from ottla.spark.audit.verdict import sentence
from ottla.spark.table_formats import format_settings, prepare_format

TOPIC = "events"
KEYS = 5


class Job:
    """The session, the topic, and where things lie."""

    def __init__(self, table_format: str, jars: str, bootstrap: str, directory: Path) -> None:
        warehouse = f"file://{directory}/tables"
        settings = {
            "spark.jars": jars,
            "spark.sql.warehouse.dir": warehouse,
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory}/derby -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            **format_settings(table_format, warehouse),
        }
        self.table_format, self.bootstrap, self.directory = table_format, bootstrap, directory
        self.spark = ottla.spark.session("table formats", "local[2]", **settings)
        prepare_format(self.spark, table_format)

    def produce(self, first: int, end: int) -> None:
        with Producer(self.bootstrap) as producer:
            for number in range(first, end):
                producer.send_soon(
                    TOPIC, value=f"value {number}", key=f"key {number % KEYS}", partition=number % 2
                )
            producer.flush()

    def _stream(self) -> Any:
        address = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": TOPIC}
        return self.spark.readStream.format("ottla").options(**address, startingOffsets="earliest").load()

    def append(self) -> None:
        """What there is, into the table `events`."""
        writer = self._stream().writeStream.format(self.table_format)
        writer = writer.option("checkpointLocation", str(self.directory / "appended"))
        writer.trigger(availableNow=True).toTable("events").awaitTermination()

    def forget_last_commit(self) -> int:
        """As if the driver had been killed after the table had the batch, and before the query noted it; the
        batch's number.
        """
        commits = self.directory / "appended" / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        return last

    def upsert(self) -> None:
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS latest (name STRING, value STRING, number BIGINT) USING {self.table_format}"
        )
        rows = self._stream().selectExpr(
            "string(key) AS name", "string(value) AS value", "bigint(substr(string(value), 7)) AS number"
        )
        write = steps.upsert("latest", "name", order_by="number", table_format=self.table_format)
        writer = rows.writeStream.foreachBatch(write).option(
            "checkpointLocation", str(self.directory / "upserted")
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    def spoil(self) -> None:
        """A table with a gap at offset 7 of partition 0, and offset 9 of partition 1 twice."""
        self.spark.sql(f"CREATE TABLE spoilt USING {self.table_format} AS SELECT * FROM events")
        self.spark.sql("DELETE FROM spoilt WHERE partition = 0 AND offset = 7")
        self.spark.sql("INSERT INTO spoilt SELECT * FROM events WHERE partition = 1 AND offset = 9")

    def audited(self, table: str) -> dict[str, object]:
        verdict = audit(self.spark, TOPIC, table, bootstrap=self.bootstrap)
        return {"sentence": sentence(verdict), "offenders": [str(each) for each in verdict.offenders]}


def main(table_format: str, jars: str, bootstrap: str, directory: str) -> dict[str, object]:
    job = Job(table_format, jars, bootstrap, Path(directory))
    job.produce(0, 60)
    job.append()
    job.upsert()
    repeated = job.forget_last_commit()
    job.produce(60, 120)
    job.append()
    job.append()  # Spark 4.1 does one batch each time: first the one that it repeats
    job.upsert()
    job.spoil()
    latest = job.spark.table("latest").orderBy("name").collect()
    described = {
        row[0]: row[1] for row in job.spark.sql("DESCRIBE TABLE EXTENDED events").collect() if row[0]
    }
    result: dict[str, object] = {
        "spark": job.spark.version,
        "provider": described["Provider"].lower(),
        "repeated_batch": repeated,
        "latest": [list(row) for row in latest],
        "events": job.audited("events"),
        "spoilt": job.audited("spoilt"),
    }
    ottla.spark.stop(job.spark)
    return result


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
