"""A short killing test through Spark; `make chaos ARGS="--spark"` is the long one (PIPE-3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.chaos.history import Acked, History
from tests.chaos.spark_kills import KINDS, Moment, plan
from tests.chaos.spark_report import page
from tests.chaos.spark_run import run, short_options, table_faults

from ottla.spark.audit.job import audit
from ottla.spark.audit.verdict import as_json


@pytest.mark.timeout(300)
def test_a_table_holds_each_record_once_although_everything_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    def audit_here(bootstrap: str, topic: str, table: Path) -> Mapping[str, Any]:
        return as_json(audit(spark, topic, str(table), bootstrap=bootstrap))

    report = run(tmp_path, short_options(), print, audit_here)
    print(page(report, "under test"))
    assert report.is_clean
    assert report.rows == report.acked == report.sent > 500
    assert len(report.injected) == 5


def test_the_same_seed_gives_the_same_kills() -> None:
    assert plan(5, 40) == plan(5, 40) != plan(6, 40)
    assert {kill.kind for kill in plan(5, 40)} == set(KINDS)
    assert {kill.moment for kill in plan(5, 40)} == set(Moment)


def test_a_record_that_is_missing_or_twice_in_the_table_is_a_fault() -> None:
    history = History("p", [Acked(0, 0, offset, f"p-0:{offset}") for offset in range(3)])
    rows = [(0, 0, "p-0:0"), (0, 1, "p-0:1"), (0, 2, "p-0:2")]
    assert table_faults(rows, [history]) == []
    assert table_faults(rows[:2], [history]) == ["(0, 2, 'p-0:2') was acknowledged, and is not in the table"]
    assert table_faults([*rows, rows[1]], [history]) == ["p-0:1 is in the table 2 times"]
