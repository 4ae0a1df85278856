"""The checker is only worth its silence if it can speak: each anomaly, planted, is found, and nothing else
is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.checker import KINDS, Log, count, judge
from tests.chaos.history import (
    UNKNOWN_OFFSET,
    Acked,
    Begun,
    Committed,
    Event,
    Failed,
    History,
    Journal,
    Read,
    Resumed,
    Sent,
    read_journal,
    value_of,
)

A, B, C, D = (value_of("a", 0, number) for number in range(4))
X, Y = (value_of("x", 0, number) for number in range(2))
LOG: Log = {0: [(0, A), (1, X), (2, B), (3, C), (4, Y)]}
PRODUCER: list[Event] = [
    Sent(10, 0, A),
    Sent(11, 0, B),
    Acked(20, 0, 0, A),
    Acked(21, 0, 2, B),
    Sent(30, 0, C),
    Acked(40, 0, 3, C),
    Sent(50, 0, D),
    Failed(60, 0, D, "timed out"),
]
OTHER: list[Event] = [Sent(10, 0, X), Acked(22, 0, 1, X), Sent(23, 0, Y), Acked(45, 0, 4, Y)]
READER: list[Event] = [Begun(5, 0, 0), *(Read(50 + offset, 0, offset, value) for offset, value in LOG[0])]
MEMBER: list[Event] = [
    Resumed(5, 0, -1, 4),
    Begun(5, 0, 0),
    *(Read(50 + offset, 0, offset, value) for offset, value in LOG[0][:3]),
    Committed(60, 0, 3),
    Resumed(70, 0, 3, 65),
    Begun(70, 0, 3),
    *(Read(80 + offset, 0, offset, value) for offset, value in LOG[0][3:]),
    Committed(90, 0, 5),
]


def histories(
    producer: list[Event] | None = None, reader: list[Event] | None = None, member: list[Event] | None = None
) -> list[History]:
    return [
        History("a", PRODUCER if producer is None else producer),
        History("x", OTHER),
        History("reader", READER if reader is None else reader),
        History("member", MEMBER if member is None else member, "g"),
    ]


def kinds(log: Log = LOG, **changed: list[Event]) -> set[str]:
    found = judge(log, histories(**changed))
    assert all(anomaly.kind in KINDS for anomaly in found)
    return {anomaly.kind for anomaly in found}


def test_where_all_promises_were_kept_nothing_is_found() -> None:
    assert kinds() == set()


def test_a_record_that_was_given_up_may_be_there_or_not() -> None:
    assert kinds({0: [*LOG[0], (5, D)]}) == set()


def test_lost() -> None:
    assert kinds({0: [*LOG[0][:3]]}) >= {"lost"}
    acked = [*PRODUCER[:-1], Acked(60, 0, 5, D)]
    assert kinds(producer=acked) == {"lost"}
    assert kinds({}, reader=[], member=[]) == {"lost"}


def test_a_record_that_is_acknowledged_without_an_offset_must_be_there_all_the_same() -> None:
    acked = [*PRODUCER[:-1], Acked(60, 0, UNKNOWN_OFFSET, D)]
    assert kinds({0: [*LOG[0], (5, D)]}, producer=acked) == set()
    assert kinds(producer=acked) == {"lost"}


def test_moved() -> None:
    acked = [*PRODUCER[:-1], Acked(60, 0, 6, D)]
    assert kinds({0: [*LOG[0], (5, D)]}, producer=acked) == {"moved"}


def test_duplicated() -> None:
    assert kinds({0: [*LOG[0], (5, C)]}) == {"duplicated"}


def test_reordered() -> None:
    log = {0: [*LOG[0], (5, value_of("x", 0, 3)), (6, value_of("x", 0, 2))]}
    sent: list[Event] = [*PRODUCER, Sent(90, 0, value_of("x", 0, 2)), Sent(91, 0, value_of("x", 0, 3))]
    assert kinds(log, producer=sent) == {"reordered"}


def test_invented() -> None:
    assert kinds({0: [*LOG[0], (5, "garbage")]}) == {"invented"}
    assert kinds({0: [*LOG[0], (5, value_of("nobody", 0, 1))]}) == {"invented"}


def test_gap() -> None:
    assert kinds({0: [*LOG[0], (6, D)]}) == {"gap"}


def test_read_uncommitted() -> None:
    assert kinds(reader=[*READER, Read(99, 0, 5, D)]) == {"read uncommitted"}
    assert kinds(reader=[*READER[:-1], Read(99, 0, 4, D)]) == {"read uncommitted"}


def test_non_monotonic() -> None:
    assert kinds(reader=[*READER, Read(99, 0, 4, Y)]) == {"non-monotonic"}


def test_a_reader_that_begins_again_may_read_again() -> None:
    assert kinds(reader=[*READER, Begun(98, 0, 4), Read(99, 0, 4, Y)]) == set()


def test_skipped_by_a_reader() -> None:
    assert kinds(reader=[READER[0], READER[1], READER[3]]) == {"skipped"}
    assert kinds(reader=[Begun(5, 0, 0), READER[2]]) == {"skipped"}


def test_skipped_by_a_group() -> None:
    forgetful = [event for event in MEMBER if not (isinstance(event, Read) and event.offset in (3,))]
    after = [Begun(82, 0, 4) if event == Begun(70, 0, 3) else event for event in forgetful]
    assert kinds(member=after) == {"skipped"}


def test_what_one_member_did_not_read_another_may_have() -> None:
    first = [event for event in MEMBER if event.at_ns < 70]
    second = [event for event in MEMBER if event.at_ns >= 70]
    both = [*histories(member=first), History("second", second, "g")]
    assert judge(LOG, both) == []


def test_a_stale_offset_that_was_acknowledged() -> None:
    late: list[Event] = [*PRODUCER, Sent(100, 0, value_of("a", 0, 9)), Acked(110, 0, 1, value_of("a", 0, 9))]
    assert "stale offset" in kinds(producer=late)


def test_a_record_sent_before_an_offset_was_known_may_lie_below_it() -> None:
    slow = [event if event != Acked(20, 0, 0, A) else Acked(200, 0, 0, A) for event in PRODUCER]
    assert kinds(producer=slow) == set()


@pytest.mark.parametrize(("asked", "found"), [(95, {"stale offset"}), (85, set[str]())])
def test_a_stale_offset_of_a_group(asked: int, found: set[str]) -> None:
    assert kinds(member=[*MEMBER, Resumed(99, 0, 3, asked)]) == found


def test_what_was_judged_is_counted() -> None:
    counts = count(histories())
    assert (counts.sent, counts.acked, counts.failed, counts.read, counts.committed) == (6, 5, 1, 10, 2)


def test_journals_are_read_as_they_were_written_up_to_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "client.journal"
    journal = Journal(path)
    journal.write("sent", 1, A)
    journal.write("acked", 1, 7, A)
    journal.write("failed", 1, B, "it is too late")
    journal.write("begun", 2, 3)
    journal.write("read", 2, 3, C)
    journal.write("committed", 2, 4)
    journal.write("resumed", 2, -1, 55)
    journal.close()
    with path.open("a") as torn:
        torn.write("read\t17")
    history = read_journal(path, "g")
    assert (history.client, history.group) == ("client", "g")
    assert [type(event) for event in history.events] == [Sent, Acked, Failed, Begun, Read, Committed, Resumed]
    assert history.events[1][1:] == (1, 7, A)
    assert history.events[2][1:] == (1, B, "it is too late")
    assert history.events[6][1:] == (2, -1, 55)
    assert [event.at_ns for event in history.events] == sorted(event.at_ns for event in history.events)


def test_a_line_that_nobody_writes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "client.journal"
    path.write_text("dreamt\t1\t0\n")
    with pytest.raises(ValueError, match="dreamt"):
        read_journal(path)
