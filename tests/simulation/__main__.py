"""Runs stories of whole clusters: `python -m tests.simulation --seed 7` tells one, `--seeds 2000` runs many."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from asyncio import events
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from multiprocessing import get_context
from random import SystemRandom
from typing import Final

from tests.simulation.bugs.catalogue import BUGS, planted
from tests.simulation.bugs.search import report
from tests.simulation.stories.story import FAULTS_S, Outcome, Story

_TOLD_EVERY: Final = 100  # so that a long run that is stopped has told how far it came


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="tell this one story")
    parser.add_argument("--log", action="store_true", help="with --seed: print what brokers log, too")
    parser.add_argument("--seeds", type=int, help="run so many stories (2000)")
    parser.add_argument("--first", type=int, help="beginning with this seed (a new one each time, printed)")
    parser.add_argument("--hours", type=float, help="run stories for so long, however many they are")
    parser.add_argument("--jobs", type=int, default=2, help="in so many processes (2)")
    parser.add_argument("--faults", default="", help="only these faults, with commas between")
    parser.add_argument(
        "--seconds", type=float, default=FAULTS_S, help="with --seed: simulated seconds with faults"
    )
    parser.add_argument("--bug", metavar="NAME", choices=sorted(BUGS), help="with this planted bug")
    parser.add_argument(
        "--bugs",
        nargs="?",
        const="",
        metavar="NAMES",
        help="with each planted bug, or those named, until a test or story finds it; of at most --seeds stories (30)",
    )
    options = parser.parse_args()
    faults = tuple(name for name in options.faults.split(",") if name)
    if options.seed is not None:
        return _tell(options.seed, faults, options.bug, options.seconds, logs=options.log)
    if options.bugs is not None:
        return _find_bugs(options.bugs, options.first or 1, options.seeds or 30, faults, options.jobs)
    first = options.first if options.first is not None else SystemRandom().randrange(1 << 30)
    print(f"stories from seed {first} on", flush=True)
    seeds = count(first) if options.hours else range(first, first + (options.seeds or 2000))
    return _run_many(_outcomes(seeds, faults, options.bug, options.jobs), options.hours)


def replay_line(seed: int, faults: tuple[str, ...] = (), bug: str | None = None) -> str:
    """The command that tells a story again."""
    more = f" --faults {','.join(faults)}" if faults else ""
    return f"python -m tests.simulation --seed {seed}{more}{f' --bug {bug}' if bug else ''}"


class _WorldTime(logging.Formatter):
    """Log lines with the process's name; the story's own lines have the time."""

    def format(self, record: logging.LogRecord) -> str:
        loop = events._get_running_loop()
        return f"          {getattr(loop, 'name', '-'):8} {record.levelname:8} {record.getMessage()}"


def _tell(seed: int, faults: tuple[str, ...], bug: str | None, seconds: float, *, logs: bool) -> int:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_WorldTime())
    logging.basicConfig(level=logging.INFO if logs else logging.CRITICAL, handlers=[handler])
    with planted(bug):
        outcome = Story(seed, faults=faults, faults_s=seconds, listen=print).run()
    print(f"trace {outcome.trace:08x}, {outcome.simulated_s:.1f} simulated seconds, {outcome.counts}")
    for line in outcome.broken:
        print(f"BROKEN: {line}")
    return 1 if outcome.broken else 0


def _outcome(faults: tuple[str, ...], bug: str | None, seed: int) -> Outcome:
    logging.disable(logging.CRITICAL)  # brokers under faults have much to say
    if not gc.get_freeze_count():
        gc.freeze()  # a story's end collects all that it made, and need not look at what was there before
    with planted(bug):
        return Story(seed, faults=faults).run()


def _outcomes(
    seeds: Iterable[int], faults: tuple[str, ...], bug: str | None, jobs: int
) -> Iterator[tuple[Outcome, str]]:
    run = partial(_outcome, faults, bug)
    if jobs == 1:
        for seed in seeds:
            yield run(seed), replay_line(seed, faults, bug)
        return
    with get_context("fork").Pool(jobs, maxtasksperchild=200) as pool:
        for outcome in pool.imap_unordered(run, seeds):
            yield outcome, replay_line(outcome.seed, faults, bug)


def _run_many(outcomes: Iterator[tuple[Outcome, str]], hours: float | None) -> int:
    began, stories, broken, simulated_s = time.monotonic(), 0, 0, 0.0
    counts: Counter[str] = Counter()
    for outcome, again in outcomes:
        stories += 1
        simulated_s += outcome.simulated_s
        counts.update(outcome.counts)
        if outcome.broken:
            broken += 1
            print(f"BROKEN: {outcome.broken[0]}\n  again: {again}", flush=True)
        if stories % _TOLD_EVERY == 0:
            print(f"{stories} stories, {broken} broken, {time.monotonic() - began:.0f} s", flush=True)
        if hours is not None and time.monotonic() - began > hours * 3600:
            break
    print(", ".join(f"{number} {what}" for what, number in counts.most_common()))
    seconds, cpu_s = time.monotonic() - began, sum(os.times()[:4])
    print(
        f"{stories} stories, {simulated_s:.0f} simulated seconds, {broken} broken, {seconds:.0f} s,"
        f" {cpu_s / max(stories, 1):.2f} s of CPU each"
    )
    return 1 if broken else 0


def _find_bugs(names: str, first: int, seeds: int, faults: tuple[str, ...], jobs: int) -> int:
    """Which seed or test finds which planted bug."""
    wanted = [name for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in BUGS]
    if unknown:
        print(f"there is no bug {', '.join(unknown)}; there are {', '.join(BUGS)}")
        return 2
    return 1 if report(wanted, range(first, first + seeds), faults, jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
