"""Which tests run side by side (`make test` runs four processes, with pytest-xdist).

- A file's tests stay together, and in their order: they share brokers and projects.
- Spark's tests are three piles: those that share one session, and two of those that start JVMs of their own.
  A JVM takes a core and a gigabyte.
- The longest tests begin first, so that they do not run alone at the end.
- Tests marked `alone` measure time, and run when no others do: `make test` runs them afterwards.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Directories in the order in which their tests begin; the others come after them.
LONGEST_FIRST: Final = (
    "tests/spark",
    "tests/chaos",
    "tests/simulation",
    "tests/benchmark",
    "tests/clients",
    "tests/integration",
)
SPARK_PILES: Final = {
    "test_clusters": "Spark's clusters",
    "test_java": "Spark's clusters",
    "test_pipeline_clusters": "Spark's clusters",
    "test_troubled_tasks": "Spark's clusters",
    "test_demo": "Spark's projects",
    "test_pipeline": "Spark's projects",
}


def pile(nodeid: str) -> str:
    """The tests that this one stays together with."""
    file = PurePosixPath(nodeid.partition("::")[0])
    if file.parts[:2] != ("tests", "spark"):
        return str(file)
    return SPARK_PILES.get(file.stem, "Spark's session")


def begins(nodeid: str) -> int:
    """The place of a test's directory in the order of beginning."""
    places = [at for at, directory in enumerate(LONGEST_FIRST) if nodeid.startswith(f"{directory}/")]
    return places[0] if places else len(LONGEST_FIRST)


class Piles(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out piles, in the order in which the tests were collected. (Subclassing is how xdist wants to be
    told.)
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return pile(nodeid)
