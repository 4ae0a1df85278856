"""Questions and answers between simulated nodes and clients, over the network that loses, doubles and overtakes.

A question is answered once, as far as its asker can tell: with the first answer that arrives, with REFUSED where no process
listens, or with None when its time is over. What was asked may have been done twice, or after its asker gave up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from tests.simulation.cluster import US_PER_MS, Cluster

REFUSED: Final = "refused"
Answered = Callable[[Any], None]


class End(Protocol):
    """Where a wire ends: a node or a client. Its life is a number that is new whenever its process is."""

    node_id: int

    @property
    def life(self) -> int: ...

    def hear(self, life: int, action: Callable[[], None]) -> None:
        """Something for the process of this life; it waits while the process stands still."""

    def receive(self, question: Question) -> None:
        """Somebody asks."""


class Question:
    """Something asked, and who waits for the answer."""

    __slots__ = ("answered", "asker", "is_done", "life", "request")

    def __init__(self, asker: End, request: Any, answered: Answered) -> None:
        self.asker = asker
        self.life = asker.life
        self.request = request
        self.answered = answered
        self.is_done = False

    def conclude(self, answer: Any) -> None:
        if not self.is_done:
            self.is_done = True
            self.answered(answer)


class Wire:
    """Everybody who can be asked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ends: dict[int, End] = {}

    def ask(
        self, asker: End, to: int, request: Any, answered: Answered, timeout_ms: int, *, is_once: bool = False
    ) -> None:
        """Ask; `is_once` if it must not arrive twice, as nothing does on one connection."""
        question = Question(asker, request, answered)
        copies = 1 if is_once else 2
        self._cluster.pass_on(asker.node_id, to, partial(self.ends[to].receive, question), copies)
        self._cluster.schedule.after(timeout_ms * US_PER_MS, partial(self._arrive, question, None))

    def reply(self, replier: End, question: Question, answer: Any) -> None:
        arrive = partial(self._arrive, question, answer)
        self._cluster.pass_on(replier.node_id, question.asker.node_id, arrive)

    @staticmethod
    def _arrive(question: Question, answer: Any) -> None:
        if not question.is_done:
            question.asker.hear(question.life, partial(question.conclude, answer))
