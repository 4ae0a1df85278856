"""A worker that Spark keeps looks at what it has loaded no more; other programs are left alone."""

from __future__ import annotations

import os
import subprocess
import sys

_TWO_TASKS = """
import gc
from ottla.spark.runtime.worker_heap import freeze_what_is_loaded
freeze_what_is_loaded()
first = gc.get_freeze_count()
later = [[] for _ in range(1000)]
freeze_what_is_loaded()
print(first, gc.get_freeze_count())
"""

_A_TASK_OF_THE_SOURCE = """
import gc
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.options import source_options
from ottla.spark.source.tasks import RangePartition, scanned
options = source_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"})
assert list(scanned(RangePartition(OffsetRange("orders", 0, 7, 7)), options)) == []
print(gc.get_freeze_count())
"""


def frozen(program: str, **environment: str) -> list[int]:
    """How many objects a program finds frozen."""
    others = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    command = [sys.executable, "-c", program]
    return [int(count) for count in subprocess.check_output(command, env=others | environment).split()]


def test_a_worker_that_is_kept_freezes_what_is_loaded_and_nothing_that_comes_later() -> None:
    first, second = frozen(_TWO_TASKS, SPARK_REUSE_WORKER="1")
    assert first > 1000
    assert second <= first  # what is no longer needed goes; nothing is added


def test_a_task_that_reads_freezes_arrow_too() -> None:
    (count,) = frozen(_A_TASK_OF_THE_SOURCE, SPARK_REUSE_WORKER="1")
    assert count > 20_000  # Python alone has some thousand


def test_the_heap_of_any_other_program_is_left_alone() -> None:
    assert frozen(_TWO_TASKS) == [0, 0]
    assert frozen(_A_TASK_OF_THE_SOURCE) == [0]
