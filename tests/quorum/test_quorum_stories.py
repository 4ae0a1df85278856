"""Stories of quorums: hundreds of seeds, each with its own faults (CTL-5). Thousands: `python -m tests.quorum --seeds 5000`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.quorum.planted_bugs import MUTATIONS, planted
from tests.quorum.story import RaftStory, tell

SEEDS = 300
_SHARE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, _SHARE))
def test_nothing_that_must_stay_true_is_broken(first: int) -> None:
    endings = [tell(seed) for seed in range(first, first + _SHARE)]
    # A simulation in which nothing happens would find nothing.
    assert sum(ending.leaders for ending in endings) > 2 * _SHARE
    assert sum(ending.committed for ending in endings) > 20 * _SHARE


@pytest.mark.parametrize("bug", MUTATIONS)
def test_a_planted_bug_is_found(bug: str) -> None:
    with planted(bug):
        for seed in range(SEEDS):
            try:
                tell(seed)
            except AssertionError as found:
                assert f"seed {seed}" in str(found)  # noqa: PT017 - the seeds before it need not fail
                return
    pytest.fail(f"{SEEDS} stories do not find {bug}")


def test_a_seed_tells_the_same_story_every_time() -> None:
    assert told(11) == told(11)
    assert told(11) != told(12)


def told(seed: int) -> list[str]:
    lines: list[str] = []
    story = RaftStory(seed)

    def trace(node_id: int, what: str, detail: Any) -> None:
        # A ticket shows where its asker is in memory; whose it is, is in the request.
        text = str(detail).split("ticket=", 1)[0]
        lines.append(f"{story.cluster.schedule.now_us} {node_id} {what} {text}")

    story.world.trace = trace
    story.run()
    return lines
