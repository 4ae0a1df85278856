import pytest

from ottla.server.net.refusal_log import RefusalLog


def test_the_first_refusal_of_a_kind_is_logged_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = RefusalLog()
    for number in range(1000):
        refusals.note(f"peer{number}", "too slow", now_s=number / 1000)
    refusals.note("other", "garbage", now_s=1.0)
    refusals.flush(now_s=2.0)
    assert caplog.messages == [
        "closing the connection from peer0: too slow",
        "closing the connection from other: garbage",
    ]
    refusals.flush(now_s=11.0)
    refusals.flush(now_s=12.0)
    assert caplog.messages[2:] == ["closed 999 more connections: too slow"]


def test_a_later_refusal_tells_how_many_were_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    for now_s in (0.0, 1.0, 2.0, 20.0):
        refusals.note("p", "slow", now_s)
    assert caplog.messages[1:] == ["closing the connection from p: slow (and 2 more before)"]
    assert refusals.count == 4


def test_reasons_without_end_fill_neither_memory_nor_the_log(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    for number in range(1000):
        refusals.note("p", f"reason {'x' * number}", now_s=0.0)
    assert len(caplog.messages) == 65
    refusals.flush(now_s=20.0)
    assert caplog.messages[-1].endswith("other reasons")
    refusals.note("p", "a reason of another day", now_s=20.0)
    assert caplog.messages[-1].endswith("a reason of another day")


def test_reasons_that_differ_in_their_numbers_are_of_one_kind(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    for number in range(1000):
        refusals.note("p", f"a frame of {number} bytes", now_s=0.0)
    refusals.flush(now_s=20.0)
    assert caplog.messages == [
        "closing the connection from p: a frame of 0 bytes",
        "closed 999 more connections: a frame of # bytes",
    ]
    assert refusals.count == 1000
