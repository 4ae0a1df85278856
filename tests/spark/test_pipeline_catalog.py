"""A table that an earlier process made is given back to Spark's catalog as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.pipelines.catalog import definitions, forgets, restore
from ottla.spark.pipelines.remote_catalog import described, give_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_table_is_given_back_as_a_managed_one(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE DATABASE remembered")
    spark.sql(
        "CREATE TABLE remembered.t (a INT, `odd name` STRING, p STRING) USING parquet PARTITIONED BY (p)"
    )
    spark.sql("INSERT INTO remembered.t VALUES (1, 'x', 'y')")
    try:
        ((created, location),) = definitions(spark, "remembered").values()
        copied = tmp_path / "u"
        shutil.copytree(location.removeprefix("file:"), copied)
        table = {"`remembered`.`u`": (created.replace("`t`", "`u`"), f"file:{copied}")}

        restore(spark, table)
        restore(spark, table)  # what is there already stays
        spark.sql("MSCK REPAIR TABLE remembered.u")

        described = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED remembered.u").collect()}
        assert forgets(spark)
        assert described["Type"] == "MANAGED"
        assert [tuple(row) for row in spark.table("remembered.u").collect()] == [(1, "x", "y")]
        spark.sql("TRUNCATE TABLE remembered.u")  # which Spark refuses for external tables
        assert spark.table("remembered.u").count() == 0
    finally:
        spark.sql("DROP DATABASE remembered CASCADE")


def test_a_server_that_has_forgotten_a_table_is_given_it_back_in_sql(
    spark: SparkSession, tmp_path: Path
) -> None:
    name, aside = "`forgotten`.`t`", f"file:{tmp_path}/aside"
    spark.sql(f"CREATE DATABASE forgotten LOCATION 'file:{tmp_path}/home'")
    spark.sql("CREATE TABLE forgotten.t (a INT, `odd name` STRING) USING parquet COMMENT 'it''s odd'")
    spark.sql("INSERT INTO forgotten.t VALUES (1, 'x')")
    try:
        told = described(spark, [name], with_definitions=True)
        assert described(spark, [name], with_definitions=False) == {name: ("", f"file:{tmp_path}/home/t")}
        shutil.copytree(tmp_path / "home" / "t", tmp_path / "kept")
        spark.sql("DROP TABLE forgotten.t")
        shutil.copytree(tmp_path / "kept", tmp_path / "home" / "t")

        give_back(spark, "forgotten", told, aside)
        give_back(spark, "forgotten", told, aside)  # what is there already stays

        assert described(spark, [name], with_definitions=True) == told
        described_as = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED forgotten.t").collect()}
        assert described_as["Type"] == "MANAGED"
        assert [tuple(row) for row in spark.table("forgotten.t").collect()] == [(1, "x")]
        spark.sql("TRUNCATE TABLE forgotten.t")  # which Spark refuses for external tables
        home = {row[0]: row[1] for row in spark.sql("DESCRIBE DATABASE EXTENDED forgotten").collect()}
        assert home["Location"] == f"file:{tmp_path}/home"
    finally:
        spark.sql("DROP DATABASE forgotten CASCADE")
