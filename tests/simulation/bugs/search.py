"""Looks for each planted bug, story by story, until one breaks a promise."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from tests.simulation.bugs.catalogue import BUGS, planted
from tests.simulation.bugs.found_by import FOUND_BY
from tests.simulation.stories.story import Outcome, Story


class Search(NamedTuple):
    """What came of the search for one bug: the seed of the story that found it, if any, and what broke in it."""

    bug: str
    seed: int | None
    faults: tuple[str, ...]
    broken: str
    stories: int


def told(bug: str | None, seed: int, faults: tuple[str, ...]) -> Outcome:
    """A story with the bug in it."""
    with planted(bug):
        return Story(seed, faults=faults).run()


def search(seeds: Iterable[int], faults: tuple[str, ...], bug: str) -> Search:
    """Tell the known story, then those of other seeds, until one is broken; with these faults, or the bug's own."""
    limits = faults or BUGS[bug].faults
    first = [FOUND_BY[bug]] if bug in FOUND_BY else []
    number = 0
    for number, seed in enumerate(dict.fromkeys((*first, *seeds)), 1):
        outcome = told(bug, seed, limits)
        if outcome.broken:
            return Search(bug, seed, limits, outcome.broken[0].strip().splitlines()[-1], number)
    return Search(bug, None, limits, "", number)


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
    print(f"{'bug':56} {'seed':>6}  broken", flush=True)
    for each in search_all(wanted, seeds, faults, jobs):
        found.append(each)
        seed = "-" if each.seed is None else str(each.seed)
        limits = f"[{','.join(each.faults)}] " if each.faults else ""
        broken = each.broken or f"not found in {each.stories} stories"
        print(f"{each.bug:56} {seed:>6}  {limits}{broken[:160]}", flush=True)
    missed = [each.bug for each in found if each.seed is None]
    print(f"{len(found) - len(missed)} of {len(found)} planted bugs found")
    return len(missed)


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)  # brokers under faults have much to say
