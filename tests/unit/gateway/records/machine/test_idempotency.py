"""What is remembered of requests with an Idempotency-Key, for how long, and what makes room."""

from __future__ import annotations

import pytest

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.records.machine.idempotency import IdempotentRequests


def requests(most: int = 2) -> IdempotentRequests[str]:
    return IdempotentRequests(most, 100.0, object)


def carried_out(table: IdempotentRequests[str], key: str, now_ms: float) -> None:
    table.begin("alice", key, b"digest", now_ms).keep(["done"])
    table.end("alice", key)


def test_a_request_is_remembered_for_its_time() -> None:
    table = requests()
    carried_out(table, "k", 0)
    assert table.begin("alice", "k", b"digest", 99).outcomes == ["done"]
    table.end("alice", "k")
    assert table.begin("alice", "k", b"digest", 100).outcomes == []


def test_a_key_belongs_to_its_caller_and_its_body() -> None:
    table = requests()
    carried_out(table, "k", 0)
    assert table.begin("bob", "k", b"another", 1).outcomes == []
    with pytest.raises(HttpError) as refused:
        table.begin("alice", "k", b"another", 1)
    assert (refused.value.status, refused.value.error_code) == (422, 42206)


def test_a_request_that_was_not_carried_out_is_forgotten() -> None:
    table = requests()
    table.begin("alice", "k", b"digest", 0)
    table.begin("alice", "k", b"digest", 1)
    table.end("alice", "k")
    assert len(table) == 1
    table.end("alice", "k")
    assert len(table) == 0


def test_requests_under_way_are_never_forgotten() -> None:
    table = requests(most=2)
    table.begin("alice", "1", b"digest", 0)
    carried_out(table, "2", 1)
    table.begin("alice", "3", b"digest", 2)  # in the place of the second
    with pytest.raises(HttpError) as refused:
        table.begin("alice", "4", b"digest", 500)
    assert refused.value.status == 503
