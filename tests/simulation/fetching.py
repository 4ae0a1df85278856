"""Followers that fetch, and fetches that wait for something to answer.

A follower has one question under way for each leader, about everything that it follows that leader for. A leader answers when there
is something to say about one of the partitions, or when the time is over.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.site import Replicate, TopicPartition
from tests.simulation.wire import REFUSED, Answered

from ottla.errors import ErrorCode
from ottla.replication.follower import FetchAnswered

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.node import Node


class Fetcher:
    """The questions to one leader."""

    def __init__(self, broker: Broker, node: Node, leader_id: int) -> None:
        self._broker = broker
        self._node = node
        self._timing = broker.timing
        self._leader_id = leader_id
        self._is_busy = False

    def go(self) -> None:
        """Ask, unless a question is under way; what was appended is flushed before."""
        if self._is_busy:
            return
        followed = [
            hosted
            for hosted in self._broker.hosted.values()
            if hosted.follower.leader == self._leader_id and not hosted.replica.is_leader
        ]
        if not followed or any(hosted.has_to_flush for hosted in followed):
            return
        now_ms = self._broker.now_ms
        asked = [(hosted.partition, hosted.next_fetch(now_ms)) for hosted in followed]
        due = tuple((partition, fetch) for partition, fetch in asked if fetch is not None)
        self._is_busy = True
        if due:
            request = Replicate(self._broker.node_id, self._broker.epoch, due)
            timeout_ms = self._timing.fetch_wait_ms + self._timing.request_timeout_ms
            self._node.ask(self._leader_id, request, self._answered, timeout_ms)
        else:
            self._node.after(self._timing.retry_ms, self._go_on)

    def _go_on(self) -> None:
        self._is_busy = False
        self.go()

    def _answered(self, answers: Any) -> None:
        if answers is None or answers is REFUSED:
            self._node.after(self._timing.retry_ms, self._go_on)
            return
        for partition, answer in answers:
            hosted = self._broker.hosted.get(partition)
            if hosted is not None:
                hosted.fetched(answer)
        self._go_on()


class Parked:
    """A fetch that waits."""

    __slots__ = ("is_answered", "reply", "request")

    def __init__(self, request: Replicate, reply: Answered) -> None:
        self.request = request
        self.reply = reply
        self.is_answered = False


class ParkedFetches:
    """The fetches of followers that wait here."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_partition: dict[TopicPartition, list[Parked]] = {}

    def serve(self, request: Replicate, reply: Answered) -> None:
        answers = self._answers(request, is_first=True)
        if any(_is_news(answer) for _, answer in answers):
            reply(answers)
            return
        parked = Parked(request, reply)
        for partition, _ in request.partitions:
            self._by_partition.setdefault(partition, []).append(parked)
        self._broker.after(self._broker.timing.fetch_wait_ms, partial(self._answer, parked))

    def wake(self, partition: TopicPartition) -> None:
        for parked in self._by_partition.pop(partition, ()):
            self._answer(parked)

    def _answer(self, parked: Parked) -> None:
        if not parked.is_answered:
            parked.is_answered = True
            parked.reply(self._answers(parked.request, is_first=False))

    def _answers(self, request: Replicate, *, is_first: bool) -> list[tuple[TopicPartition, FetchAnswered]]:
        answers = []
        for partition, asked in request.partitions:
            hosted = self._broker.hosted.get(partition)
            if hosted is None:
                answer = FetchAnswered(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                answer = hosted.replicate(request.replica_id, request.broker_epoch, asked, is_first=is_first)
            answers.append((partition, answer))
        return answers


def _is_news(answer: FetchAnswered) -> bool:
    return bool(answer.records) or answer.error is not ErrorCode.NONE or answer.diverging is not None
