"""The status in checkpoints and tables, read without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.state import FlowState, PipelineState, TableState
from ottla.spark.pipelines.status import FlowStanding, flow_standings, table_standings


def project(directory: Path) -> Project:
    return Project(directory / "spark-pipeline.yml", "p", f"file://{directory}/storage", None, None, {}, ())


def checkpoint(directory: Path, flow: str, number: int, offsets: dict[int, str], commits: int) -> None:
    root = directory / "storage/_checkpoints/spark_catalog/default" / flow / flow / str(number)
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(parents=True)
    for batch, line in offsets.items():
        (root / "offsets" / str(batch)).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{line}\n', encoding="utf-8"
        )
        if batch < commits:
            (root / "commits" / str(batch)).write_text("v1\n{}", encoding="utf-8")


def test_a_flow_stands_at_the_end_of_its_last_committed_batch_in_its_newest_checkpoint(
    tmp_path: Path,
) -> None:
    checkpoint(tmp_path, "orders", 0, {0: '{"t":{"0":99}}'}, commits=1)
    checkpoint(tmp_path, "orders", 1, {0: '{"t":{"0":3}}', 1: '{"t":{"0":5}}', 2: '{"t":{"0":9}}'}, commits=2)
    checkpoint(tmp_path, "new", 0, {0: '{"t":{"0":3}}'}, commits=0)
    flows = {
        "orders": FlowState("orders", "a.py:1", ("t",), "p.orders"),
        "new": FlowState("new", "a.py:2"),
        "view": FlowState("view", "a.sql:1"),
    }

    standings = flow_standings(project(tmp_path), PipelineState(flows=flows))

    assert standings == [
        FlowStanding("new", 0, {}, None),
        FlowStanding("orders", 2, {("t", 0): 5}, "p.orders"),
        FlowStanding("view", 0, {}, None),
    ]


def test_a_table_has_the_rows_of_the_files_that_were_committed(tmp_path: Path) -> None:
    streamed, plain = tmp_path / "orders", tmp_path / "customers"
    for folder in (streamed, plain):
        folder.mkdir()
        for at in range(3):
            parquet.write_table(pa.table({"a": list(range(at + 1))}), folder / f"part-{at}.parquet")
    log = streamed / "_spark_metadata"
    log.mkdir()
    entry = [json.dumps({"path": f"file://{streamed}/part-{at}.parquet", "action": "add"}) for at in range(2)]
    (log / "8").write_text("v1\n", encoding="utf-8")
    (log / "9.compact").write_text(f"v1\n{entry[0]}\n", encoding="utf-8")
    (log / "10").write_text(f"v1\n{entry[1]}\n", encoding="utf-8")
    tables = {
        "`default`.`orders`": TableState("", f"file:{streamed}"),
        "`default`.`customers`": TableState("", f"file:{plain}"),
        "`default`.`far`": TableState("", "s3://b/far"),
    }

    standings = table_standings(PipelineState(tables=tables))

    assert [(each.name, each.rows, each.files) for each in standings] == [
        ("customers", 6, 3),
        ("far", None, None),
        ("orders", 3, 2),
    ]


@pytest.mark.parametrize("its_list", ["_delta_log", "metadata"])
def test_of_a_table_with_another_list_of_files_nothing_is_guessed(tmp_path: Path, its_list: str) -> None:
    table = tmp_path / "t"
    (table / its_list).mkdir(parents=True)
    parquet.write_table(pa.table({"a": [1, 2]}), table / "replaced.parquet")
    state = PipelineState(tables={"`default`.`t`": TableState("CREATE …", f"file:{table}")})
    (standing,) = table_standings(state)
    assert (standing.name, standing.rows, standing.files, standing.size_bytes) == ("t", None, None, None)
