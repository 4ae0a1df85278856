"""docs/spark-sink.md: what it shows runs as it stands there, and it names every option that has an effect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.spark.sink.options import PRODUCER_SETTINGS, TRANSACTION_SETTINGS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark-sink.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_the_blocks_run_one_after_the_other(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    with ottla.testing.broker() as own:
        for block in BLOCKS:
            program = block.replace("localhost:9092", own.bootstrap).replace("/tmp/", f"{tmp_path}/")
            exec(compile(program, "<docs/spark-sink.md>", "exec"), names)
        orders = {(record.key, record.value) for record in own.records("orders")}
        assert orders == {(b"table 4", b"one coffee"), (b"table 7", b"two teas")}
        assert {record.value for record in own.records("loud-orders")} == {b"ONE COFFEE", b"TWO TEAS"}
        counts = {(record.key, record.value) for record in own.records("counts")}
        assert counts == {(b"table 4", b"1"), (b"table 7", b"1")}


@pytest.mark.parametrize("name", sorted({**PRODUCER_SETTINGS, **TRANSACTION_SETTINGS}))
def test_every_setting_is_on_the_page(name: str) -> None:
    assert f"`kafka.{name}`" in PAGE or (name.endswith(".level") and "the codecs' levels" in PAGE)
