"""The fsyncs that the flush settings ask for, over a log that only counts."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config import TopicConfig
from ottla.server.partitions.flush_policy import FlushPolicy


def policy(replicas: int = 1, *, log: dict[str, int] | None = None, **settings: Any) -> FlushPolicy:
    """A policy over a log of ten records, none of them flushed, in one segment."""
    counts = {
        "unflushed_messages": 10,
        "unflushed_bytes": 1000,
        "flushed_offset": 0,
        "unflushed_since_ms": 0,
        **(log or {}),
    }
    config = TopicConfig(**settings)
    segments = SimpleNamespace(active=SimpleNamespace(base_offset=counts.pop("active_base_offset", 0)))
    fake: Any = SimpleNamespace(
        tail=SimpleNamespace(config=config),
        extent=SimpleNamespace(segments=segments),
        durability=SimpleNamespace(**counts),
        log_end_offset=10,
    )
    made = FlushPolicy(fake)
    made.configure(config, replicas)
    return made


@pytest.mark.parametrize(
    ("settings", "acks_leader", "acks_all"),
    [
        ({}, False, False),
        ({"flush_messages": 1}, True, True),
        ({"flush_messages": 2}, False, False),
        ({"ottla_flush_on_acks_all": True}, False, True),
    ],
)
def test_which_appends_are_acknowledged_after_an_fsync(
    settings: dict[str, Any], acks_leader: bool, acks_all: bool
) -> None:
    made = policy(**settings)
    assert (made.must_flush(acks_all=False), made.must_flush(acks_all=True)) == (acks_leader, acks_all)


def test_only_flushed_records_count_where_all_replicas_flush() -> None:
    assert policy(3, ottla_flush_on_acks_all=True).counted_offset == 0
    assert policy(1, ottla_flush_on_acks_all=True).counted_offset is None
    assert policy(3).counted_offset is None


@pytest.mark.parametrize(
    ("replicas", "log", "settings", "is_due"),
    [
        (1, {}, {}, False),
        (1, {}, {"flush_messages": 10}, True),
        (1, {}, {"flush_messages": 11}, False),
        (1, {}, {"ottla_flush_bytes": 1000}, True),
        (1, {}, {"ottla_flush_bytes": 1001}, False),
        (1, {"active_base_offset": 5}, {}, True),
        (1, {"active_base_offset": 5, "flushed_offset": 5}, {}, False),
        (3, {}, {"ottla_flush_on_acks_all": True}, True),
        (1, {}, {"ottla_flush_on_acks_all": True}, False),
    ],
)
def test_when_a_flush_is_due(replicas: int, log: dict[str, int], settings: Any, is_due: bool) -> None:
    assert policy(replicas, log=log, **settings).is_due is is_due


def test_a_flush_is_overdue_when_records_have_waited_for_flush_ms() -> None:
    made = policy(flush_ms=100)
    assert made.is_by_time
    assert (made.is_overdue(99), made.is_overdue(100)) == (False, True)
    assert not policy(log={"unflushed_messages": 0}, flush_ms=100).is_overdue(100)
    assert not policy().is_by_time


def test_records_from_before_flushing_was_turned_on_are_flushed_by_the_clock() -> None:
    turned_on = policy(3, ottla_flush_on_acks_all=True)
    assert turned_on.is_by_time
    assert turned_on.is_overdue(now_ms=0)
    assert not policy(3, log={"flushed_offset": 10}, ottla_flush_on_acks_all=True).is_overdue(now_ms=0)
    assert not policy(3).is_by_time
