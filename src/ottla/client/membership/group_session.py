"""Runs the machine of a group member: sends its requests, and wakes it when a deadline has come.

Every event goes to the machine at once, and its effects begin at once; an effect that takes time is a
task that ends with the next event. Effects of a rebalance (divide partitions, let go of them, take them over)
are for the owner. Rules:
- JoinGroup and SyncGroup have a connection of their own: a broker may hold them for minutes, and answers
  later requests on the same connection only after them.
- An unexpected failure of a task ends the session and is kept in `failure`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.connections import Connections, hanging_up
from ottla.client.cluster.coordinator import Coordinator
from ottla.client.membership.machine.group_member import GroupMember, Phase
from ottla.client.requests.member_events import (
    Adopt,
    Answered,
    Ask,
    Assign,
    CoordinatorFound,
    CoordinatorNotFound,
    Effect,
    Ended,
    Event,
    FindCoordinator,
    Prepare,
    Stop,
    Tick,
    Unanswerable,
    Unanswered,
)
from ottla.client.requests.membership import Membership
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest

_PARKED: Final = (JoinGroupRequest, SyncGroupRequest)


class GroupSession:
    """A member of a group, alive from `tell(Start(...))` to `close`.

    `rebalance(effect)` is called when the owner has to divide, prepare or adopt; the owner then tells the
    session the result. `wake()` is called when the session ended.
    """

    def __init__(
        self,
        member: GroupMember,
        coordinator: Coordinator,
        connections: Connections,
        rebalance: Callable[[Assign | Prepare | Adopt], None],
        wake: Callable[[], None],
    ) -> None:
        self._member = member
        self._coordinator = coordinator
        self._connections = connections
        self._joining = connections.sibling()
        self._rebalance = rebalance
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background(self._broken)
        self._ended = asyncio.Event()
        self._error: KafkaError | None = None

    @property
    def membership(self) -> Membership:
        return self._member.membership

    @property
    def is_new(self) -> bool:
        """Whether the member has not begun to join."""
        return self._member.phase is Phase.OUT

    @property
    def is_stable(self) -> bool:
        """Whether the group has agreed and nothing is about to change."""
        return self._member.phase is Phase.STABLE

    def is_stable_in(self, membership: Membership) -> bool:
        """Whether the group has agreed, in the generation of `membership`."""
        return self.is_stable and self.membership == membership

    @property
    def failure(self) -> BaseException | None:
        """Why the session is over, if it did not end by `close`."""
        return self._background.failure or self._error

    def tell(self, event: Event) -> None:
        """Let the machine hear of an event, and begin its effects."""
        for effect in self._member.step(event, round(self._loop.time() * 1000)):
            self._carry_out(effect)
        self._set_timer()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that ends with the session, and whose failure ends the session."""
        self._background.start(work)

    async def close(self, reason: str) -> None:
        """Leave the group, then end everything that is under way."""
        try:
            self.tell(Stop(reason))
            await self._ended.wait()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._background.close()
            await self._joining.close()

    # ---- effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Ask():
                self._background.start(self._ask(effect))
            case FindCoordinator():
                self._background.start(self._find())
            case Assign() | Prepare() | Adopt():
                self._rebalance(effect)
            case Ended(error):
                self._error = error
                self._ended.set()
                self._wake()

    def _broken(self) -> None:
        self._ended.set()
        self._wake()

    async def _ask(self, ask: Ask) -> None:
        connections = self._joining if isinstance(ask.request, _PARKED) else self._connections
        event: Event
        try:
            connection = await connections.to(await self._coordinator.find(ask.timeout_ms))
            async with hanging_up(connection):
                response = await connection.ask(ask.request, timeout_ms=ask.timeout_ms)
            event = Answered(ask.request, response)
        except (ConnectionError, TimeoutError):
            event = Unanswered(ask.request)
        except KafkaError as error:
            cannot = error.code == ErrorCode.UNSUPPORTED_VERSION
            event = Unanswerable(ask.request, error) if cannot else Unanswered(ask.request)
        self.tell(event)

    async def _find(self) -> None:
        self._coordinator.forget()
        event: Event = CoordinatorFound()
        try:
            await self._coordinator.find()
        except (ConnectionError, TimeoutError):
            event = CoordinatorNotFound()
        except KafkaError as error:
            event = CoordinatorNotFound(error)
        self.tell(event)

    # ---- time

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self._member.next_deadline_ms
        self._timer = None if deadline_ms is None else self._loop.call_at(deadline_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.tell(Tick())
