"""Spark starts a Python process for each stream, and one for each kind of planning: its user waits for what
these import.
"""

from __future__ import annotations

import subprocess
import sys

_IMPORTS = """
import sys
import pyspark.sql.datasource, pyspark.sql.streaming.datasource, pyspark.sql.streaming.listener
before = set(sys.modules)
import {modules}
print(*sorted(set(sys.modules) - before))
"""


def imported_by(*modules: str) -> set[str]:
    """The modules that these import besides those of PySpark."""
    command = [sys.executable, "-c", _IMPORTS.format(modules=", ".join(modules))]
    return set(subprocess.check_output(command, text=True).split())


def test_what_plans_needs_no_event_loop_and_no_arrays() -> None:
    planners = (
        "data_source",
        *(f"source.{name}" for name in ("stream_reader", "batch_reader", "topics", "progress")),
    )
    imported = imported_by(*(f"ottla.spark.{name}" for name in planners))
    assert not imported & {"asyncio", "ssl", "numpy", "pyarrow", "pandas", "crc32c", "ottla.blocking"}


def test_what_is_looked_up_needs_no_client() -> None:
    imported = imported_by("pyspark_ottla")
    assert not {name for name in imported if name.startswith(("ottla.client.sync", "ottla.wire.connection"))}
