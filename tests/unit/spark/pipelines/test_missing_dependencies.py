"""A table's name below a step that looks it up is found in a plan, and only there."""

from __future__ import annotations

from typing import Any

import pyspark.sql.connect.proto as protocol

from ottla.spark.pipelines.missing_dependencies import LOOKING, in_words, tables_looked_up


def table(name: str) -> Any:
    return protocol.Relation(
        read=protocol.Read(named_table=protocol.Read.NamedTable(unparsed_identifier=name), is_streaming=True)
    )


def with_column(below: Any) -> Any:
    return protocol.Relation(with_columns=protocol.WithColumns(input=below))


def project(below: Any) -> Any:
    return protocol.Relation(project=protocol.Project(input=below))


def test_a_table_below_with_column_is_looked_up() -> None:
    assert tables_looked_up(with_column(project(table("`s`.`raw`")))) == {("withColumn", "raw")}
    renamed = protocol.Relation(
        with_columns_renamed=protocol.WithColumnsRenamed(input=table("raw"), rename_columns_map={"a": "b"})
    )
    assert tables_looked_up(project(renamed)) == {("withColumnRenamed", "raw")}


def test_a_table_beside_with_column_is_not() -> None:
    join = protocol.Relation(join=protocol.Join(left=with_column(table("a")), right=table("b")))

    assert tables_looked_up(join) == {("withColumn", "a")}
    assert tables_looked_up(project(table("a"))) == set()


def test_sql_is_searched_by_words() -> None:
    query = protocol.Relation(sql=protocol.SQL(query="SELECT * FROM STREAM(`raw`)"))

    assert ("withColumn", "raw") in tables_looked_up(with_column(query))
    assert tables_looked_up(query) == set()


def test_the_sentence_says_what_to_write() -> None:
    said = in_words("orders", {("drop", "raw"), ("withColumn", "raw")})

    assert "uses `drop` on raw and `withColumn` on raw" in said
    assert '`select("*", column.alias("name"))`' in said


def test_the_steps_are_spark_connects() -> None:
    kinds = {field.name for field in protocol.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields}
    assert set(LOOKING) <= kinds
