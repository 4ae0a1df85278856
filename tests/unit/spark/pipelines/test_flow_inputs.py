"""What a flow reads, by its SQL or its plan."""

from __future__ import annotations

from ottla.spark.pipelines.flow_inputs import FlowInputs, inputs_of_plan, inputs_of_sql


def test_sql_tells_streams_from_tables() -> None:
    found = inputs_of_sql(
        "SELECT * FROM STREAM(`s`.`raw`) a JOIN spark_catalog.s.names USING (id) "
        "JOIN (SELECT * FROM stream late) USING (id)"
    )

    assert found == FlowInputs(frozenset({"raw", "late"}), frozenset({"names"}))
    assert found.all == {"raw", "late", "names"}


def test_a_plan_tells_streams_from_tables() -> None:
    from pyspark.sql.connect.proto import Relation

    plan = Relation()
    plan.join.left.read.named_table.unparsed_identifier = "s.`raw`"
    plan.join.left.read.is_streaming = True
    plan.join.right.filter.input.read.named_table.unparsed_identifier = "names"

    assert inputs_of_plan(plan) == FlowInputs(frozenset({"raw"}), frozenset({"names"}))
    plan.join.right.sql.query = "SELECT * FROM STREAM(`orders`)"
    assert inputs_of_plan(plan) == FlowInputs(frozenset({"raw", "orders"}))
