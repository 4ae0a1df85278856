"""One member of a classic group.

Its identity, timeouts, metadata and assignment are in the log once a sync has completed; what it waits for,
and when its session ends, is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.group.decision import GroupRequestContext, Parked
from ottla.group.records import MemberMetadata
from ottla.group.timers import Timer
from ottla.protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol

Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, eq=False)
class Member:
    """A static member has a `group_instance_id`, which outlives its member ids."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols  # what it can speak, best first, each with its metadata
    assignment: bytes = b""
    is_new: bool = True  # it has not been in any generation
    parked_join: Parked | None = None
    parked_sync: Parked | None = None
    session: Timer = field(default_factory=Timer)

    # State changes

    def heard(self, now_ms: int) -> None:
        """Extend the session. A session that is suspended, because the member waits for others, stays so."""
        if self.parked_join is None and self.parked_sync is None:
            self.session.postpone(now_ms + self.session_timeout_ms)

    def rejoin(self, request: JoinGroupRequest, context: GroupRequestContext) -> None:
        """Take over the timeouts and the client of the latest join; `ClassicGroup` has the protocols
        changed.
        """
        self.rebalance_timeout_ms = rebalance_timeout_ms(request, context.version)
        self.session_timeout_ms = request.session_timeout_ms
        self.client_id = context.client_id
        self.client_host = context.client_host

    def speak(self, protocols: Protocols) -> None:
        """Replace the protocols; `ClassicGroup.update_protocols` counts them."""
        self.protocols = protocols

    def inherit(self, former: Member) -> None:
        """Take over what a static member's former self had."""
        self.assignment = former.assignment
        self.is_new = former.is_new

    def assign(self, assignment: bytes) -> None:
        """Take over an assignment that the log has."""
        self.assignment = assignment

    def enter_generation(self) -> None:
        """The member is part of a generation."""
        self.is_new = False

    def park_join(self, parked: Parked | None) -> None:
        """Wait for the next generation; with None, no longer. `ClassicGroup.park_join` counts the members
        that wait.
        """
        self.parked_join = parked

    def park_sync(self, parked: Parked) -> None:
        """Wait for the leader's assignments."""
        self.parked_sync = parked

    def release_sync(self) -> Parked | None:
        """The SyncGroup request that waits, if there is one: the caller answers it."""
        parked, self.parked_sync = self.parked_sync, None
        return parked

    # Properties

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def spoken(self) -> set[str]:
        """The names of its protocols."""
        return {name for name, _ in self.protocols}

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata that the member sent for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The one of the candidates that it likes best; it speaks all of them."""
        return next(name for name, _ in self.protocols if name in candidates)

    def recorded(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """Its part of the group's record."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )


def joining_member(request: JoinGroupRequest, context: GroupRequestContext, member_id: str) -> Member:
    """The member that a request makes, with copies of its bytes: the frame that they stand in is used
    again.
    """
    return Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms(request, context.version),
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols_of(request.protocols),
    )


def recorded_member(value: MemberMetadata, protocol: str | None) -> Member:
    """A member as the log knows it: of its protocols, only the chosen one."""
    timeout_ms = value.rebalance_timeout if value.rebalance_timeout >= 0 else value.session_timeout
    return Member(
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=timeout_ms,
        session_timeout_ms=value.session_timeout,
        protocols=((protocol or "", bytes(value.subscription)),),
        assignment=bytes(value.assignment),
        is_new=False,
    )


def rebalance_timeout_ms(request: JoinGroupRequest, version: int) -> int:
    """How long a rebalance waits for this member; version 0 has one timeout for both."""
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


def protocols_of(offered: list[JoinGroupRequestProtocol]) -> Protocols:
    """The protocols of a request, best first."""
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in offered)
