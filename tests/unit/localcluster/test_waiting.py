from __future__ import annotations

import pytest

from ottla.localcluster.waiting import wait_until


def test_waiting_ends_when_the_condition_holds() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), "the third answer")


def test_a_deadline_that_passes_names_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"not within 0\.01 s: the sun rises"):
        wait_until(lambda: False, "the sun rises", 0.01)
