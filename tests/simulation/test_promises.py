"""The table of promises is walked (REP-9): each cell with exactly its faults and settings, from a fixed seed."""

from __future__ import annotations

import pytest
from tests.simulation.promises.stage import Stage
from tests.simulation.promises.table import PROMISES, Promise, Tale

SEED = 7

WALKED = [(promise, tale) for promise in PROMISES for tale in promise.tales]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("promise", "tale"),
    WALKED,
    ids=[f"{promise.fault}-{promise.setting.title}-{tale.play.__name__}" for promise, tale in WALKED],
)
def test_a_promise_is_kept(promise: Promise, tale: Tale) -> None:
    stage = Stage(SEED, promise.setting.topic, voters_apart=tale.voters_apart)
    try:
        tale.play(stage)
        tale.end(stage)
    finally:
        stage.end()
