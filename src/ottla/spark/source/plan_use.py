"""One plan, one query: the guard of `pushFilters`.

Spark 4.3 keeps one plan per Python DataFrame source, not one per query (`PythonDataSourceV2.readInfo`). A
plan that was made for the filters of one query would be used for the next query on the same DataFrame too,
and rows would be missing without a word. So a plan that filters have narrowed is taken by the first query
that reads by it, and every other one is refused with an explanation.

The notes lie in Spark's own scratch directory, which planner and tasks share on a host and which goes when
the application ends.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ottla.spark.option_values import OptionError


def take(plan: str, taker: str) -> None:
    """Take a plan for a query, or for a set of filters; OptionError if another one has it."""
    note = _directory() / f"ottla-plan-{plan}"
    owner = _written(note, taker)
    if owner != taker:
        raise OptionError(
            "A DataFrame with the option 'pushFilters' can be used for one query: Spark keeps the plan of its first filters. "
            "Load it again for each query (see Filters in docs/spark.md)."
        )


def this_query() -> str:
    """The query that the task which asks belongs to."""
    from pyspark import TaskContext  # on executors only

    task = TaskContext.get()
    properties = ("spark.sql.execution.root.id", "spark.sql.execution.id")
    return next((found for name in properties if task and (found := task.getLocalProperty(name))), "")


def _written(note: Path, taker: str) -> str:
    """The query that has the plan. A link appears whole or not at all, so the first query wins."""
    draft = note.with_suffix(f".{os.getpid()}")
    draft.write_text(taker)
    try:
        os.link(draft, note)
    except FileExistsError:
        return note.read_text()
    finally:
        draft.unlink()
    return taker


def _directory() -> Path:
    return Path((os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()).split(",")[0])
