"""Which tests run side by side (`make test` runs four processes, with pytest-xdist).

- A file's tests stay together, and in their order: they share brokers and projects.
- Spark's tests are two piles: those that share one session, and those that start JVMs of their own. Each pile has one process at a time, for
  a JVM takes a core and a gigabyte.
- What takes longest begins first, so that nobody waits for it in the end.
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
JVMS_OF_THEIR_OWN: Final = frozenset(
    {"test_clusters", "test_demo", "test_java", "test_pipeline", "test_pipeline_clusters"}
)


def pile(nodeid: str) -> str:
    """The tests that this one stays together with."""
    file = PurePosixPath(nodeid.partition("::")[0])
    if file.parts[:2] != ("tests", "spark"):
        return str(file)
    return "Spark's own JVMs" if file.stem in JVMS_OF_THEIR_OWN else "Spark's session"


def begins(nodeid: str) -> int:
    """The place of a test's directory in the order of beginning."""
    places = [at for at, directory in enumerate(LONGEST_FIRST) if nodeid.startswith(f"{directory}/")]
    return places[0] if places else len(LONGEST_FIRST)


class Piles(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out piles, in the order in which the tests were collected. (Subclassing is how xdist wants to be told.)"""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return pile(nodeid)
