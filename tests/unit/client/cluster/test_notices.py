from __future__ import annotations

import pytest

from ottla.client.cluster.notices import REPEAT_SECONDS, Notices


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_is_logged_at_once_and_then_rarely_with_the_number_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    notices = Notices("billing", clock)
    for _ in range(5):
        notices.say("silent", "no broker answers")
        clock.now += 1
    notices.say(("absent", "t"), "another kind")
    clock.now += REPEAT_SECONDS
    notices.say("silent", "no broker answers")
    clock.now += REPEAT_SECONDS
    notices.say("silent", "no broker answers")
    assert [(record.name, record.levelname) for record in caplog.records] == [("ottla.client", "WARNING")] * 4
    assert caplog.messages == [
        "billing: no broker answers",
        "billing: another kind",
        "billing: no broker answers (4 more times since the last line)",
        "billing: no broker answers",
    ]


def test_kinds_without_end_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    notices = Notices("c", Clock())
    for number in range(3000):
        notices.say(number, "x")
    assert len(caplog.records) == 3000
    notices.say(2999, "x")
    assert len(caplog.records) == 3000
