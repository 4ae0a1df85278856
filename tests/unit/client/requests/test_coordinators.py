"""Which partition holds a group or a transactional id: the same as brokers find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.requests.coordinators import coordinator_partition
from ottla.client.sync.transaction_group import shared_coordinator_id
from ottla.server.coordinators.java_hash import partition_for


@given(st.text(), st.integers(1, 100))
def test_a_client_finds_the_partition_that_a_broker_finds(key: str, count: int) -> None:
    assert coordinator_partition(key, count) == partition_for(key, count)


def test_the_least_hash_belongs_to_the_first_partition() -> None:
    assert coordinator_partition("polygenelubricants", 50) == 0


@pytest.mark.parametrize("count", [1, 3, 50, 200])
def test_members_of_a_writer_have_its_coordinator(count: int) -> None:
    ids = {shared_coordinator_id("ottla-sink-mill", f"{number}.0", count) for number in range(50)}
    assert len(ids) == 50
    assert {coordinator_partition(each, count) for each in ids} == {
        coordinator_partition("ottla-sink-mill", count)
    }
