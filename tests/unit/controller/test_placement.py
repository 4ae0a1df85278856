"""Replicas are spread evenly (CTL-2)."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import place


@given(st.data())
def test_no_broker_leads_or_holds_two_partitions_more_than_another(data: st.DataObject) -> None:
    brokers = data.draw(st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True))
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(brokers, data.draw(st.integers(1, 60)), factor, data.draw(st.integers(0, 100)))
    held = Counter(dict.fromkeys(brokers, 0))
    led = Counter(dict.fromkeys(brokers, 0))
    for replicas in placed:
        assert len(set(replicas)) == factor
        held.update(replicas)
        led[replicas[0]] += 1
    assert max(held.values()) - min(held.values()) <= 1
    assert max(led.values()) - min(led.values()) <= 1


@pytest.mark.parametrize(("start", "leader"), [(0, 7), (1, 8), (2, 9), (3, 7)])
def test_the_first_leader_rotates_with_the_start(start: int, leader: int) -> None:
    assert place([7, 8, 9], 1, 1, start) == [[leader]]
