"""Runs stories of a quorum: `python -m tests.quorum --seed 7 --trace`, or `--seeds 5000`."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from typing import Any

from tests.quorum.planted_bugs import MUTATIONS, planted
from tests.quorum.story import RaftStory, tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.quorum", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one story, and say what came of it")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event and effect")
    parser.add_argument("--seeds", type=int, default=1000, help="run so many (1000)")
    parser.add_argument("--first", type=int, default=0, help="beginning with this one (0)")
    parser.add_argument("--bug", choices=sorted(MUTATIONS), help="with a planted bug")
    options = parser.parse_args()
    with planted(options.bug) if options.bug else nullcontext():
        if options.seed is not None:
            return _run_one(options.seed, options.trace)
        return _run_many(range(options.first, options.first + options.seeds))


def _run_one(seed: int, traces: bool) -> int:
    story = RaftStory(seed)

    def trace(node_id: int, what: str, detail: Any) -> None:
        print(f"{story.cluster.schedule.now_us / 1000:10.3f}  {node_id} {what:11} {detail}")

    if traces:
        story.world.trace = trace
    print(story.run())
    return 0


def _run_many(seeds: range) -> int:
    began, failures, steps = time.monotonic(), 0, 0
    for seed in seeds:
        try:
            steps += tell(seed).steps
        except AssertionError as problem:
            failures += 1
            print(problem)
    seconds = time.monotonic() - began
    print(f"{len(seeds)} stories, {steps} events, {failures} broken, {seconds:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
