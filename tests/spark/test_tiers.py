"""Queries whose executors read the brokers' object store themselves (PIPE-9)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic, now_ms
from tests.integration.test_tier_scan import fetches, stable_end
from tests.integration.test_tiers import TIERED, fill, settings
from tests.spark.conftest import produce_transactions

from ottla.localcluster.ports import HOST
from ottla.localcluster.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 188


@pytest.fixture(scope="module")
def tiering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker whose topic "cold" lies in a directory, but for the active segment."""
    place = tmp_path_factory.mktemp("tiering")
    with broker_thread(place / "data", settings(place / "tier")) as broker:
        with Peer(broker.port) as peer:
            create_topic(peer, "cold", **{**TIERED, "segment_bytes": 20_000, "local_retention_bytes": 1})
            fill(peer, "cold", 0, RECORDS, timestamp=now_ms() - RECORDS)
        await_tiered(broker, "cold")
        yield broker


def await_tiered(broker: BrokerThread, topic: str) -> None:
    log, tier = broker.log(topic), broker.partition(topic).tier
    assert tier is not None
    wait_until(
        lambda: log.log_start_offset >= 0.9 * log.log_end_offset, "nine tenths are in the store only", 60
    )
    wait_until(lambda: tier.remote.next_offset == log.log_start_offset, "the rest is not there", 60)


def options(broker: BrokerThread, topic: str, **more: Any) -> dict[str, Any]:
    return {
        "kafka.bootstrap.servers": f"{HOST}:{broker.port}",
        "subscribe": topic,
        "readTier": "true",
        **more,
    }


def read(spark: SparkSession, broker: BrokerThread, topic: str, **more: Any) -> DataFrame:
    return spark.read.format("ottla").options(**options(broker, topic, **more)).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.value).rstrip(b".")) for row in frame.select("value").collect())


def test_a_batch_reads_the_cold_part_from_the_store_and_the_rest_from_brokers(
    spark: SparkSession, tiering: BrokerThread
) -> None:
    seam, before = tiering.log("cold").log_start_offset, fetches(tiering)
    cold = read(spark, tiering, "cold", endingOffsets=f'{{"cold":{{"0":{seam}}}}}')
    assert numbers(cold) == list(range(seam))
    assert fetches(tiering) == before
    whole = read(spark, tiering, "cold", includeHeaders="true")
    assert numbers(whole) == list(range(RECORDS))
    assert fetches(tiering) > before
    assert whole.rdd.getNumPartitions() == 2  # one for each side of the seam
    assert numbers(read(spark, tiering, "cold", minPartitions="7")) == list(range(RECORDS))
    rows = {row.offset: row for row in read(spark, tiering, "cold", readTier="false").collect()}
    assert {row.offset: row for row in read(spark, tiering, "cold").collect()} == rows
    plan = whole._jdf.queryExecution().toString()
    assert "file:" not in plan


def test_a_stream_reads_the_cold_part_from_the_store(
    spark: SparkSession, tiering: BrokerThread, tmp_path: Path
) -> None:
    given = options(tiering, "cold", startingOffsets="earliest", maxOffsetsPerTrigger="150")
    query = (
        spark.readStream.format("ottla")
        .options(**given)
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "table"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert numbers(spark.read.parquet(str(tmp_path / "table"))) == list(range(RECORDS))


def test_readers_of_committed_records_read_what_is_committed_in_the_store(
    spark: SparkSession, tiering: BrokerThread
) -> None:
    with Peer(tiering.port) as peer:
        create_topic(peer, "committed", **{**TIERED, "local_retention_bytes": 1})
    address = f"{HOST}:{tiering.port}"
    transactions = [
        ([b"%d" % (10 * turn + part) + b"." * 900 for part in range(4)], bool(turn % 3)) for turn in range(30)
    ]
    produce_transactions(address, "committed", *transactions)
    stable_end(tiering, "committed")
    await_tiered(tiering, "committed")
    wanted = [10 * turn + part for turn in range(30) if turn % 3 for part in range(4)]
    frame = read(spark, tiering, "committed", **{"kafka.isolation.level": "read_committed"})
    assert numbers(frame) == wanted
