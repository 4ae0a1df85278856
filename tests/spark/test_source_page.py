"""docs/spark.md: what it shows runs as it stands there, prints what it says, and names every option."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla.testing
from ottla.spark.source.plan.kafka_options import USED
from ottla.spark.source.plan.options import NAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def promised(block: str) -> list[str]:
    """The comments beside calls of print."""
    return re.findall(r"^ *print\(.*\)  # (.+)$", block, re.MULTILINE)


def test_the_blocks_run_one_after_the_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    names: dict[str, Any] = {"__name__": "__main__"}
    with ottla.testing.broker() as own:
        try:
            for block in BLOCKS:
                program = block.replace("localhost:9092", own.bootstrap).replace("/tmp/orders", str(tmp_path))
                assert printed_by(program, names) == promised(block)
        finally:
            forget(spark, names)


def printed_by(program: str, names: dict[str, Any]) -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "<docs/spark.md>", "exec"), names)
    return printed.getvalue().splitlines()


def forget(spark: SparkSession, names: dict[str, Any]) -> None:
    """The session goes on to other tests."""
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    for view in ("orders", "order_stream"):
        spark.catalog.dropTempView(view)
    if "groups" in names:
        spark.streams.removeListener(names["groups"])


@pytest.mark.parametrize("name", [*NAMES, *(f"kafka.{name}" for name in USED)])
def test_every_option_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE
