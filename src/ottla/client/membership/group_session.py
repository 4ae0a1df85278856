"""Runs the machine of a group member: sends its requests, keeps its time, divides partitions when it leads.

Every event is told to the machine at once, and its effects are begun at once; what takes time is a task that ends with
the next event. What only the application can do (let go of partitions, take new ones over) waits in `pending` until the
application polls. Rules:
- JoinGroup and SyncGroup have a connection of their own: a broker may keep them for minutes, and answers what comes
  behind them on the same connection only then.
- A task that fails in a way nobody foresaw ends the membership with that failure; it is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.connections import Connections, hanging_up
from ottla.client.cluster.coordinator import Coordinator
from ottla.client.membership.machine.group_member import GroupMember, Phase
from ottla.client.requests.member_events import (
    Adopt,
    Answered,
    Ask,
    Assign,
    Assigned,
    CoordinatorFound,
    CoordinatorNotFound,
    Effect,
    Ended,
    Event,
    FindCoordinator,
    Prepare,
    Prepared,
    Protocols,
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

    `assign(effect)` divides the partitions; `prepare(effect)` answers what to join with if the application need not be
    asked; `wake()` is called when something waits in `pending`, or the session ended.
    """

    def __init__(
        self,
        member: GroupMember,
        coordinator: Coordinator,
        connections: Connections,
        assign: Callable[[Assign], Awaitable[Mapping[str, bytes]]],
        prepare: Callable[[Prepare], Protocols | None],
        wake: Callable[[], None],
    ) -> None:
        self._member = member
        self._coordinator = coordinator
        self._connections = connections
        self._joining = connections.sibling()
        self._assign = assign
        self._prepare = prepare
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background(self._broken)
        self._ended = asyncio.Event()
        self._error: KafkaError | None = None
        self.pending: Prepare | Adopt | None = None

    @property
    def membership(self) -> Membership:
        return self._member.membership

    @property
    def is_new(self) -> bool:
        """Whether it has not begun to join."""
        return self._member.phase is Phase.OUT

    @property
    def is_stable(self) -> bool:
        """Whether the group has agreed and nothing is about to change."""
        return self._member.phase is Phase.STABLE

    def is_stable_in(self, membership: Membership) -> bool:
        """Whether the group stands as it stood when this was the membership."""
        return self.is_stable and self.membership == membership

    @property
    def failure(self) -> BaseException | None:
        """Why the membership is over, if it did not end by being closed."""
        return self._background.failure or self._error

    def tell(self, event: Event) -> None:
        """Let the machine hear of something, and begin what it wants done."""
        for effect in self._member.step(event, round(self._loop.time() * 1000)):
            self._carry_out(effect)
        self._set_timer()

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
            case Assign():
                self._background.start(self._divide(effect))
            case Prepare():
                self._let_prepare(effect)
            case Adopt():
                self.pending = effect
                self._wake()
            case Ended(error):
                self._error = error
                self._ended.set()
                self._wake()

    def _let_prepare(self, effect: Prepare) -> None:
        # An assignment that the application has not taken over is out of date from now on.
        protocols = self._prepare(effect)
        if protocols is None:
            self.pending = effect
            self._wake()
        else:
            self.pending = None
            self.tell(Prepared(protocols))

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

    async def _divide(self, effect: Assign) -> None:
        self.tell(Assigned(effect.generation_id, await self._assign(effect)))

    # ---- time

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self._member.next_deadline_ms
        self._timer = None if deadline_ms is None else self._loop.call_at(deadline_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.tell(Tick())
