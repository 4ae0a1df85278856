"""Looks for each planted bug: the test that is known to find it, or one story after the other, until a promise breaks."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import get_context
from typing import Final, NamedTuple

from tests.simulation.bugs import run_planted
from tests.simulation.bugs.catalogue import BUGS, planted
from tests.simulation.bugs.found_by import FOUND_BY
from tests.simulation.stories.story import Outcome, Story

_TEST_S: Final = 120


class Search(NamedTuple):
    """What came of the search for one bug: the seed or the test that found it, if any, and what broke."""

    bug: str
    finder: int | str | None
    faults: tuple[str, ...]
    broken: str
    stories: int


def told(bug: str | None, seed: int, faults: tuple[str, ...]) -> Outcome:
    """A story with the bug in it."""
    with planted(bug):
        return Story(seed, faults=faults).run()


def search(seeds: Iterable[int], faults: tuple[str, ...], bug: str) -> Search:
    """Try what is known to find the bug, then other seeds; with these faults, or the bug's own."""
    limits = faults or BUGS[bug].faults
    known = FOUND_BY.get(bug)
    if isinstance(known, str) and _fails(known, bug):
        return Search(bug, known, (), "this test fails", 0)
    first = [known] if isinstance(known, int) else []
    number = 0
    for number, seed in enumerate(dict.fromkeys((*first, *seeds)), 1):
        outcome = told(bug, seed, limits)
        if outcome.broken:
            return Search(bug, seed, limits, outcome.broken[0].strip().splitlines()[-1], number)
    return Search(bug, None, limits, "", number)


def _fails(test: str, bug: str) -> bool:
    """Whether a test fails when the bug is planted."""
    command = [sys.executable, "-m", run_planted.__name__, bug, test]
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_TEST_S)
    return run.returncode == run_planted.FAILED


def search_all(
    names: Iterable[str], seeds: Iterable[int], faults: tuple[str, ...], jobs: int
) -> Iterator[Search]:
    """Searches for bugs, several at once, as they end."""
    with get_context("fork").Pool(jobs, initializer=_be_quiet, maxtasksperchild=20) as pool:
        yield from pool.imap_unordered(partial(search, list(seeds), faults), list(names))


def report(names: Iterable[str], seeds: Iterable[int], faults: tuple[str, ...], jobs: int) -> int:
    """Print a table of what finds each bug, and how many were found; the number of those that were not."""
    found: list[Search] = []
    wanted = list(names) or list(BUGS)
    print(f"{'bug':56} found by", flush=True)
    for each in search_all(wanted, seeds, faults, jobs):
        found.append(each)
        limits = f" [{','.join(each.faults)}]" if each.faults else ""
        finder = f"{each.finder}{limits}: {each.broken[:160]}"
        print(
            f"{each.bug:56} {finder if each.finder is not None else f'no story of {each.stories}'}",
            flush=True,
        )
    missed = [each.bug for each in found if each.finder is None]
    print(f"{len(found) - len(missed)} of {len(found)} planted bugs found")
    return len(missed)


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)  # brokers under faults have much to say
