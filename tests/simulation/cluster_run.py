"""Runs stories of clusters: `python -m tests.simulation.cluster_run --seed 7 --trace`, or `--seeds 2000`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

from tests.simulation.cluster_story import ClusterStory, tell_cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster_run", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--raft", action="store_true")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    if options.seed is not None:
        return run_one(options.seed, options.trace, options.raft)
    began, failures, steps = time.monotonic(), 0, 0
    counts: Counter[str] = Counter()
    healed = []
    for seed in range(options.first, options.first + options.seeds):
        try:
            ending = tell_cluster(seed)
            steps += ending.steps
            counts.update(ending.counts)
            counts["committed"] += ending.committed
            healed.append(ending.healed_ms)
        except AssertionError as problem:
            failures += 1
            print(str(problem)[:600])
    seconds = time.monotonic() - began
    print(f"{options.seeds} stories, {steps} events, {failures} broken, {seconds:.1f} s")
    print(dict(counts.most_common()))
    healed.sort()
    print("healed ms: median", healed[len(healed) // 2], "max", healed[-1]) if healed else None
    return 1 if failures else 0


def run_one(seed: int, traces: bool, raft: bool) -> int:
    story = ClusterStory(seed)

    def trace(node_id: int, what: str, detail: Any) -> None:
        print(f"{story.cluster.schedule.now_us / 1000:10.3f}  {node_id} {what:11} {detail}")

    if traces:
        story.site.trace = trace
        if raft:
            story.site.raft.trace = trace
    print(story.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
