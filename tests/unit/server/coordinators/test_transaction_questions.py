"""Questions of a partition to its transaction's coordinator are repeated while the last transaction ends (EOS-1)."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.server.coordinators.transaction_questions import TransactionQuestions

PARTITION = TopicPartition("orders", 0)


class Coordinator:
    """Answers that the last transaction is still being ended, so many times."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.asked = 0

    async def answer(self, transactional_id: str, command: Any) -> ErrorCode:
        self.asked += 1
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.asked <= self.busy else ErrorCode.NONE


def outcome_of(
    coordinator: Coordinator, *, adds: bool = True, pause_ms: int = 20, longest_ms: int = 60_000
) -> ErrorCode:
    here: Any = SimpleNamespace(node_id=1, leader_of=lambda transactional_id: 1)
    config = TransactionConfig(retry_backoff_ms=pause_ms, retry_backoff_max_ms=longest_ms)
    questions = TransactionQuestions(config, here, here, coordinator.answer)
    return asyncio.run(questions.verify("till", 7, 0, [PARTITION], adds=adds))[PARTITION]


@pytest.fixture
def pauses_ms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made in this thread, none of which takes time. Brokers of other tests may be running."""
    made: list[float] = []
    sleep, here = asyncio.sleep, threading.get_ident()

    async def paused(seconds: float, result: object = None) -> object:
        if threading.get_ident() != here:
            return await sleep(seconds, result)
        made.append(round(seconds * 1000, 3))
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", paused)
    return made


def test_the_first_pauses_are_as_short_as_markers_usually_take(pauses_ms: list[float]) -> None:
    assert outcome_of(Coordinator(6)) is ErrorCode.NONE
    assert pauses_ms == [2, 4, 8, 16, 20, 20]


def test_no_pause_is_longer_than_the_setting(pauses_ms: list[float]) -> None:
    assert outcome_of(Coordinator(3), pause_ms=1) is ErrorCode.NONE
    assert pauses_ms == [1, 1, 1]


def test_after_the_longest_time_the_producer_is_told(pauses_ms: list[float]) -> None:
    coordinator = Coordinator(1_000)
    assert outcome_of(coordinator, longest_ms=1) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (coordinator.asked, pauses_ms) == (1, [])


def test_a_producer_that_adds_its_partitions_itself_is_told_at_once(pauses_ms: list[float]) -> None:
    coordinator = Coordinator(1)
    assert outcome_of(coordinator, adds=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (coordinator.asked, pauses_ms) == (1, [])
