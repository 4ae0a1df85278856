"""Whole clusters of shipped brokers and clients under faults (REP-3, REP-6, REP-8, CTL-3): some stories with
known seeds, some with new ones.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import SystemRandom

import pytest
from tests.simulation.__main__ import replay_line
from tests.simulation.bugs.catalogue import BUGS, planted
from tests.simulation.bugs.found_by import FOUND_BY
from tests.simulation.bugs.search import search
from tests.simulation.stories.story import Outcome, Story

# A story takes two seconds; on a machine that is busy with other tests, many times as long.
pytestmark = pytest.mark.timeout(300)

KNOWN_SEEDS = range(1, 4)
# Nearly every story finds these; the others are looked for with `make sim ARGS=--bugs`.
FOUND_SOON = (
    "truncation_by_watermark",
    "new_leader_in_the_old_epoch",
    "answers_are_given_to_the_wrong_batches",
    "vote_is_said_before_it_is_written",
    "vote_is_written_and_not_synced",
)
# A story with logins, rights and quotas.
SECURED_SEED = 50
# A story with transactions.
TRANSACTIONAL_SEED = 6
NEW_SEEDS = [SystemRandom().randrange(1 << 30) for _ in range(2)]


def told(seed: int, bug: str | None = None) -> Outcome:
    with planted(bug):
        return Story(seed).run()


@pytest.mark.parametrize("seed", KNOWN_SEEDS)
def test_every_promise_is_kept_under_faults(seed: int) -> None:
    outcome = told(seed)
    assert not outcome.broken, f"{outcome.broken[0]}; again: {replay_line(seed)}"
    # A story in which nothing happens would find nothing.
    assert outcome.counts["acknowledged"] > 50
    assert outcome.counts["read"] > 100


def test_transactions_are_whole_under_faults() -> None:
    outcome = told(TRANSACTIONAL_SEED)
    assert not outcome.broken, f"{outcome.broken[0]}; again: {replay_line(TRANSACTIONAL_SEED)}"
    assert outcome.counts["committed"] > 5
    assert outcome.counts["read committed"] > 30


def test_promises_are_kept_while_rights_passwords_and_quotas_change() -> None:
    outcome = told(SECURED_SEED)
    assert not outcome.broken, f"{outcome.broken[0]}; again: {replay_line(SECURED_SEED)}"
    assert outcome.counts["revocations"] > 0
    assert outcome.counts["failed"] > 10, "records that were refused"
    assert outcome.counts["acknowledged"] > 50


def test_a_story_that_is_over_leaves_no_event_loop_behind() -> None:
    before = _loop_of_this_thread()
    told(4)
    assert _loop_of_this_thread() is before


def _loop_of_this_thread() -> object:
    """The loop that asyncio made for a caller without one, and kept; None if there is none."""
    return getattr(asyncio.get_event_loop_policy()._local, "_loop", None)  # type: ignore[attr-defined]


def test_every_promise_is_kept_in_stories_never_told_before() -> None:
    for seed in NEW_SEEDS:
        print(replay_line(seed))
        outcome = told(seed)
        assert not outcome.broken, f"{outcome.broken[0]}; again: {replay_line(seed)}"


def test_every_planted_bug_replaces_something_that_is_there() -> None:
    for bug in BUGS:
        with planted(bug):
            pass


def test_every_planted_bug_names_what_finds_it() -> None:
    assert FOUND_BY.keys() == BUGS.keys()
    for finder in FOUND_BY.values():
        if isinstance(finder, str):
            path, test = finder.split("::")
            assert f"def {test.partition('[')[0]}(" in Path(path).read_text(), finder


@pytest.mark.parametrize("bug", FOUND_SOON)
def test_a_planted_bug_is_found(bug: str) -> None:
    found = search(range(1, 100), (), bug)
    assert found.finder is not None, f"{found.stories} stories do not find {bug}"


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    """The order of sets and dictionaries that depends on hashes must not show."""
    runs = [_telling(TRANSACTIONAL_SEED, "1"), _telling(TRANSACTIONAL_SEED, "2"), _telling(12, "1")]
    told_by = [run.communicate(timeout=240)[0] for run in runs]
    assert "trace" in told_by[0]
    assert told_by[0] == told_by[1]
    assert told_by[0] != told_by[2]


def _telling(seed: int, hash_seed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--seconds", "5"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )
