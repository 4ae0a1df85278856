"""docs/pipelines.md: what it shows runs as it stands there, and the example is what `ottla pipeline init`
makes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla.testing
from ottla.spark import steps
from ottla.spark.pipelines.template import copy_template

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import NewTopic

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pipelines.md"


def test_the_page_runs(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    good = b'{"order_id": "a", "customer": "c", "amount": 2.5, "placed_at": "2026-01-01T00:00:00Z"}'
    topic, dead = new_topic(records=[{"value": good}, {"value": b"oops", "key": "k"}]), new_topic(stem="dead")
    text = (
        PAGE.read_text(encoding="utf-8")
        .replace('"orders.dead"', f'"{dead}"')
        .replace('"orders"', f'"{topic}"')
    )
    names: dict[str, Any] = {
        "spark": spark,
        "steps": steps,
        "bootstrap": broker.bootstrap,
        "directory": str(tmp_path),
    }
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)

    query = names["revenue"].writeStream.format("memory").queryName("page").trigger(availableNow=True).start()
    query.awaitTermination()
    assert names["once"].isStreaming
    assert [row.order_id for row in names["newest"].collect()] == ["a"]
    assert [(row.topic, bytes(row.value)) for row in names["again"].collect()] == [(topic, b"oops")]
    assert spark.read.parquet(f"{tmp_path}/customers").count() == 1
    assert names["added"] == 1
    assert [(row.customer, row.placed, row.revenue) for row in names["days"].collect()] == [("c", 1, 2.5)]
    assert [(row.id, row.name) for row in names["accounts"].collect()] == [(1, "Ada L.")]


def test_every_step_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in steps.__all__ if f"`{name}" not in text] == []


def test_the_example_is_what_init_makes(tmp_path: Path) -> None:
    made = copy_template(tmp_path / "order_pipeline")

    example = ROOT / "examples" / "order_pipeline"
    assert [str(file) for file in made] == sorted(str(file) for file in made)
    for file in made:
        assert (tmp_path / "order_pipeline" / file).read_text() == (example / file).read_text(), file
