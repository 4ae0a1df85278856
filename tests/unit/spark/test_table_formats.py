"""A session's settings for Delta and Iceberg, and the message for jars that do not fit."""

from __future__ import annotations

from ottla.spark.table_formats import TABLE_FORMATS, format_settings, problem_of

EXTENSIONS, CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
DELTA, ICEBERG = TABLE_FORMATS["delta"], TABLE_FORMATS["iceberg"]


def test_parquet_needs_nothing() -> None:
    assert format_settings("parquet", "file:///tables") == {}


def test_delta_has_an_extension_and_stands_before_sparks_own_catalog() -> None:
    assert format_settings("delta", "file:///tables") == {
        EXTENSIONS: DELTA.extension,
        CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def test_iceberg_has_a_catalog_in_the_warehouse() -> None:
    settings = format_settings("iceberg", "file:///tables")
    assert settings[CATALOG] == "org.apache.iceberg.spark.SparkCatalog"
    assert settings[f"{CATALOG}.warehouse"] == "file:///tables"
    assert settings[f"{CATALOG}.cache-enabled"] == "false"


def test_without_a_warehouse_iceberg_is_read_by_its_path() -> None:
    assert format_settings("iceberg") == {EXTENSIONS: ICEBERG.extension}


def test_what_the_user_has_set_stays() -> None:
    given = {EXTENSIONS: "a.B, c.D", CATALOG: "my.Catalog"}
    assert format_settings("delta", "file:///tables", given) == {EXTENSIONS: f"a.B,c.D,{DELTA.extension}"}
    named = {EXTENSIONS: DELTA.extension, CATALOG: "my.Catalog"}
    assert format_settings("delta", None, named) == {EXTENSIONS: DELTA.extension}


def test_jars_that_were_built_for_this_spark_are_fine() -> None:
    assert problem_of(DELTA, "4.2", "/x/io.delta_delta-spark_4.2_2.13-4.4.0.jar") is None
    assert problem_of(ICEBERG, "4.1", "/x/iceberg-spark-runtime-4.1_2.13-1.12.0.jar") is None


def test_jars_that_do_not_say_for_what_are_believed() -> None:
    assert problem_of(DELTA, "4.3", "/x/delta-spark_2.13-4.0.0.jar") is None
    assert problem_of(DELTA, "4.3", "/x/fat.jar") is None
    assert problem_of(DELTA, "4.3", "") is None


def test_jars_for_another_spark_are_named_with_the_right_ones() -> None:
    assert problem_of(DELTA, "4.2", "/x/delta-spark_4.1_2.13-4.4.0.jar") == (
        "delta-spark_4.1_2.13-4.4.0.jar is Delta for Spark 4.1, and this is Spark 4.2. "
        "Set `spark.jars.packages` to io.delta:delta-spark_4.2_2.13:4.4.0."
    )


def test_a_spark_for_which_there_is_none_is_told_the_newest_that_has_one() -> None:
    assert problem_of(ICEBERG, "4.3", None) == (
        "this Spark does not have Iceberg. The newest Spark for which we know one is 4.1: "
        "`pip install 'pyspark[pipelines]==4.1.*'`, and set `spark.jars.packages` to "
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0."
    )
