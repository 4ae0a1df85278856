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


def frozen(**environment: str) -> list[int]:
    """How many objects are frozen after the first and after the second task of a process."""
    others = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    command = [sys.executable, "-c", _TWO_TASKS]
    return [int(count) for count in subprocess.check_output(command, env=others | environment).split()]


def test_a_worker_that_is_kept_freezes_what_is_loaded_and_nothing_that_comes_later() -> None:
    first, second = frozen(SPARK_REUSE_WORKER="1")
    assert first > 1000
    assert second <= first  # what is no longer needed goes; nothing is added


def test_the_heap_of_any_other_program_is_left_alone() -> None:
    assert frozen() == [0, 0]
