"""Objects that a Python worker of Spark has loaded are left out of its garbage collections.

PySpark's daemon collects all garbage of a worker after each task (`gc.collect()` in `pyspark/daemon.py`). A
worker with PySpark, numpy and Arrow has 50,000 to 80,000 objects, which live as long as it does: to look at
all of them took 25 to 40 ms of CPU after each task of each micro-batch, more than half of what a small task
took. Frozen objects are not looked at. Rules
- Only in workers that Spark keeps for more tasks: the heap of any other program is its own business.
- Once for each of them, at the first task. The daemon has collected what earlier tasks left, so next to
  nothing is frozen that is garbage; what comes later is collected as ever.
"""

from __future__ import annotations

import functools
import gc
import os


@functools.cache
def freeze_what_is_loaded() -> None:
    """To be called by a task when all that it needs is imported."""
    if "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()
