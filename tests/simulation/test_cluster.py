"""Stories of whole clusters: hundreds of seeds, each with its own faults (REP-8, CTL-3). Thousands: `make sim`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.broker_real_log import RealBrokerLog
from tests.simulation.cluster_mutations import FOUND_BY, MUTATIONS, planted
from tests.simulation.cluster_story import ClusterStory, tell_cluster

SEEDS = 200
ALL_SEEDS = 2_000  # of `make sim`
REAL_LOG_SEEDS = 20
_SHARE = 25


@pytest.mark.parametrize("first", range(0, SEEDS, _SHARE))
def test_nothing_that_must_stay_true_is_broken(first: int) -> None:
    endings = [tell_cluster(seed) for seed in range(first, first + _SHARE)]
    # A simulation in which nothing happens would find nothing.
    assert sum(ending.committed for ending in endings) > 200 * _SHARE
    assert sum(ending.counts["elections"] for ending in endings) > 10 * _SHARE
    assert sum(ending.counts["faults"] for ending in endings) > 20 * _SHARE


def test_nothing_is_broken_over_the_real_log_either() -> None:
    for seed in range(REAL_LOG_SEEDS):
        tell_cluster(seed, RealBrokerLog)


@pytest.mark.parametrize("bug", MUTATIONS)
def test_a_planted_bug_is_found(bug: str) -> None:
    # The first seed is known to find it. Where the code has changed since, another one will.
    with planted(bug):
        for seed in (FOUND_BY[bug], *range(ALL_SEEDS)):
            try:
                tell_cluster(seed)
            except AssertionError as found:
                assert f"--seed {seed}" in str(found)  # noqa: PT017 - the seeds before it need not fail
                return
    pytest.fail(f"{ALL_SEEDS} stories do not find {bug}")


def test_without_a_bug_the_same_stories_end_well() -> None:
    for seed in sorted(set(FOUND_BY.values()) - set(range(SEEDS))):
        tell_cluster(seed)


def test_a_seed_tells_the_same_story_every_time() -> None:
    assert told(11) == told(11)
    assert told(11) != told(12)


def told(seed: int) -> list[str]:
    lines: list[str] = []
    story = ClusterStory(seed)

    def trace(node_id: int, what: str, detail: Any) -> None:
        lines.append(f"{story.cluster.schedule.now_us} {node_id} {what} {detail}")

    story.site.trace = trace
    lines.append(str(story.run()))
    return lines
