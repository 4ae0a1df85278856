"""How many records may be sent, and what can be committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.subscriptions.machine.flow import BATCH, MOST_OPEN, WINDOW, Flow
from ottla.model import TopicPartition

PLACE = TopicPartition("t", 0)


def record(offset: int, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, None, b"", ())


def sent(flow: Flow, *offsets: int) -> list[int]:
    flow.read(map(record, offsets))
    found = []
    while (each := flow.next()) is not None:
        found.append(each.offset)
    return found


def test_credits_are_used_up_by_records() -> None:
    flow = Flow(has_group=False, credit=3)
    assert flow.room == 3
    assert sent(flow, 0, 1) == [0, 1]
    assert flow.room == 1
    flow.add_credit(2)
    assert flow.room == 3
    flow.acknowledge(PLACE, 0, up_to=False)  # without a group: nothing to remember
    assert (flow.room, flow.to_commit()) == (3, {})


def test_a_group_without_credits_has_a_window() -> None:
    flow = Flow(has_group=True, credit=None)
    sent(flow, *range(WINDOW))
    assert flow.room == 0
    flow.acknowledge(PLACE, 5, up_to=False)
    assert (flow.room, flow.to_commit()) == (1, {})
    flow.acknowledge(PLACE, 4, up_to=True)
    assert (flow.room, flow.to_commit()) == (6, {PLACE: 6})
    with pytest.raises(ValueError, match="no credits"):
        flow.add_credit(1)


def test_a_caller_with_credits_still_has_to_acknowledge() -> None:
    flow = Flow(has_group=True, credit=MOST_OPEN * 2)
    sent(flow, *range(MOST_OPEN))
    assert flow.room == 0


def test_records_that_wait_take_room() -> None:
    flow = Flow(has_group=False, credit=None)
    flow.read([record(0), record(1)])
    assert flow.room == BATCH - 2


def test_a_pause_holds_back_what_was_read() -> None:
    flow = Flow(has_group=False, credit=5)
    flow.pause()
    assert (sent(flow, 0), flow.room) == ([], 0)
    flow.resume()
    assert (sent(flow), flow.room) == ([0], 4)


def test_what_is_committed_is_not_committed_again() -> None:
    flow = Flow(has_group=True, credit=None)
    sent(flow, 3, 7)
    flow.acknowledge(PLACE, 3, up_to=False)
    assert flow.to_commit() == {PLACE: 4}
    flow.committed({PLACE: 4})
    assert flow.to_commit() == {}
    flow.acknowledge(PLACE, 3, up_to=False)  # twice: counts once
    flow.acknowledge(PLACE, 7, up_to=False)
    assert (flow.to_commit(), flow.room) == ({PLACE: 8}, WINDOW)
    assert flow.to_commit([TopicPartition("t", 1)]) == {}
    with pytest.raises(ValueError, match="offset 9"):
        flow.acknowledge(PLACE, 9, up_to=False)


def test_a_partition_that_goes_gives_its_room_back() -> None:
    flow = Flow(has_group=True, credit=None)
    sent(flow, 0, 1, 2)
    flow.acknowledge(PLACE, 1, up_to=False)
    flow.read([record(3), record(0, 1)])
    flow.drop([PLACE])
    assert (flow.room, flow.to_commit()) == (WINDOW - 1, {})
    assert [flow.next(), flow.next()] == [record(0, 1), None]
    with pytest.raises(ValueError, match="t-0"):
        flow.acknowledge(PLACE, 2, up_to=False)


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_first_record_without_an_acknowledgement_is_where_a_group_goes_on(
    order: list[int], count: int
) -> None:
    flow = Flow(has_group=True, credit=None)
    sent(flow, *range(12))
    for offset in order[:count]:
        flow.acknowledge(PLACE, offset, up_to=False)
    missing = min(set(range(13)) - set(order[:count]))
    assert flow.to_commit() == ({PLACE: missing} if missing else {})
    assert flow.room == WINDOW - 12 + count
