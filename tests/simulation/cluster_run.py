"""Runs stories of clusters: `python -m tests.simulation.cluster_run --seed 7 --trace`, or `--seeds 2000` on all cores."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing import get_context
from typing import Any

from tests.simulation.broker_log import BrokerLog
from tests.simulation.broker_real_log import RealBrokerLog
from tests.simulation.cluster_mutations import MUTATIONS, RARE_MUTATIONS, planted
from tests.simulation.cluster_story import ClusterEnding, ClusterStory, NewLog, tell_cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster_run", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one story, and say what came of it")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what the nodes do")
    parser.add_argument("--raft", action="store_true", help="with --trace: every event of the quorum, too")
    parser.add_argument("--seeds", type=int, default=2000, help="run so many (2000)")
    parser.add_argument("--first", type=int, default=0, help="beginning with this one (0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="on so many processes (all cores)"
    )
    parser.add_argument(
        "--real-log", action="store_true", help="over ottla.log on the disk that tears; slower"
    )
    parser.add_argument("--bug", choices=sorted({**MUTATIONS, **RARE_MUTATIONS}), help="with a planted bug")
    parser.add_argument("--bugs", action="store_true", help="with each planted bug, until it is found")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # logs that were torn say so, loudly
    seeds = range(options.first, options.first + options.seeds)
    new_log = RealBrokerLog if options.real_log else BrokerLog
    if options.seed is not None:
        with _bug(options.bug):
            return _run_one(
                ClusterStory(options.seed, new_log), traces=options.trace, traces_raft=options.raft
            )
    if options.bugs:
        return _find_bugs(seeds, options.jobs)
    return _run_many(_outcomes(seeds, options.bug, options.jobs, new_log))


def _bug(name: str | None) -> AbstractContextManager[None]:
    return planted(name) if name else nullcontext()


def _run_one(story: ClusterStory, *, traces: bool, traces_raft: bool) -> int:
    def trace(node_id: int, what: str, detail: Any) -> None:
        print(f"{story.cluster.schedule.now_us / 1000:10.3f}  {node_id} {what:14} {detail}")

    if traces:
        story.site.trace = trace
    if traces and traces_raft:
        story.site.raft.trace = trace
    print(story.run())
    return 0


def _outcome(bug: str | None, new_log: NewLog, seed: int) -> ClusterEnding | str:
    """How a story ends, or what is wrong with it."""
    try:
        with _bug(bug):
            return tell_cluster(seed, new_log)
    except AssertionError as problem:
        again = f" --bug {bug}" if bug else ""
        return f"{problem}{again}"


def _outcomes(
    seeds: Iterable[int], bug: str | None, jobs: int, new_log: NewLog = BrokerLog
) -> Iterator[ClusterEnding | str]:
    outcome = partial(_outcome, bug, new_log)
    if jobs == 1:
        yield from map(outcome, seeds)
        return
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(outcome, seeds, chunksize=4)


def _run_many(outcomes: Iterable[ClusterEnding | str]) -> int:
    began, stories, failures, steps, healed = time.monotonic(), 0, 0, 0, [0]
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        stories += 1
        if isinstance(outcome, str):
            failures += 1
            print(outcome, flush=True)
            continue
        steps += outcome.steps
        counts.update(outcome.counts)
        counts["records committed"] += outcome.committed
        healed.append(outcome.healed_ms)
    seconds = time.monotonic() - began
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))
    print(f"healed within {sorted(healed)[len(healed) // 2]} ms mostly, {max(healed)} ms at most")
    print(f"{stories} stories, {steps} events, {failures} broken, {seconds:.1f} s")
    return 1 if failures else 0


def _find_bugs(seeds: range, jobs: int) -> int:
    """Which seed finds which bug first."""
    missed = 0
    for bug in MUTATIONS:
        found = next((o for o in _outcomes(seeds, bug, jobs) if isinstance(o, str)), None)
        missed += found is None
        print(f"{bug}: {found or 'not found'}"[:240], flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
