"""A member of a classic group, as a machine: `step(event, now_ms)` returns the next effects.

The member joins (with a member id that the coordinator gives it, or as a static member), divides the
partitions if it is the leader, syncs, sends heartbeats on their own schedule, joins again when the group
rebalances, and leaves. It knows nothing of sockets, clocks, or partitions: protocols and assignments are
bytes.

Rules
- One request of the phase (JoinGroup, SyncGroup, LeaveGroup) and one heartbeat are under way at most. An
  answer to any other request is late, and is ignored.
- Before the member joins again the application gives up its partitions: `Prepare`, answered by `Prepared`. If
  the group continued without the member, `Prepare` says that they are lost.
- A coordinator that does not answer, or is not the group's, is looked up again; the request is then repeated.
  Failures are followed by a pause, which grows.
- If the application does not ask for records for `rebalance_timeout_ms`, the member leaves, and joins again
  when the application is back. Heartbeats do not depend on the application.
- A static member does not leave when it stops: it may come back within the session timeout without a
  rebalance. Any other asks the coordinator, also one that has just moved, until `LEAVE_TIMEOUT_MS` is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

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
    PollBegan,
    PollEnded,
    Prepare,
    Prepared,
    Protocols,
    Refused,
    Rejoin,
    Start,
    Stop,
    Unanswerable,
    Unanswered,
)
from ottla.client.requests.member_requests import (
    MemberSettings,
    heartbeat_request,
    join_request,
    joined_members,
    leave_request,
    sync_request,
)
from ottla.client.requests.membership import NO_MEMBER_ID, Membership
from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_GENERATION
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

# A join is answered when the last member has come or the rebalance timeout is over; this is for the way.
JOIN_GRACE_MS: Final = 5_000
# Leaving should not take long, but a coordinator that moves is there again after a second or two. The session
# timeout removes a member whose LeaveGroup was lost.
LEAVE_TIMEOUT_MS: Final = 3_000


class Phase(Enum):
    """Where a member is."""

    OUT = "not a member yet"
    JOINING = "waits for the group to assemble"
    ASSIGNING = "leads the group, and divides the partitions"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    PREPARING = "gives up what it holds, to join again"
    LEAVING = "sends LeaveGroup"
    OVER = "has left, or was refused"


# Every way there is from one phase to another.
TRANSITIONS: Final[Mapping[tuple[Phase, Phase], str]] = {
    (Phase.OUT, Phase.JOINING): "start",
    (Phase.JOINING, Phase.JOINING): "the member id is given, or unknown: join with another",
    (Phase.JOINING, Phase.SYNCING): "joined as a follower",
    (Phase.JOINING, Phase.ASSIGNING): "joined as the leader",
    (Phase.ASSIGNING, Phase.SYNCING): "the partitions are divided",
    (Phase.SYNCING, Phase.STABLE): "the assignment is there",
    (Phase.SYNCING, Phase.JOINING): "the group rebalances again, or does not know the member",
    (
        Phase.STABLE,
        Phase.PREPARING,
    ): "the group rebalances, the subscription changed, or the membership is lost",
    (Phase.PREPARING, Phase.PREPARING): "the membership is lost meanwhile",
    (Phase.PREPARING, Phase.JOINING): "the application has given its partitions up",
    **{
        (phase, Phase.PREPARING): "the application does not poll"
        for phase in (Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING)
    },
    **{(phase, Phase.LEAVING): "stop" for phase in Phase if phase not in (Phase.LEAVING, Phase.OVER)},
    **{(phase, Phase.OVER): "left, or refused for good" for phase in Phase if phase is not Phase.OVER},
}

_MEMBER: Final = (Phase.ASSIGNING, Phase.SYNCING, Phase.STABLE, Phase.PREPARING)
_HOLDS_ASSIGNMENT: Final = (Phase.STABLE, Phase.PREPARING)
_OUTSIDE: Final = (Phase.OUT, Phase.OVER)
_COORDINATOR_LOST: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_MEMBERSHIP_LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class GroupMember:
    """The machine. `backoff_ms(failures)` is the pause after that many failures in a row."""

    def __init__(self, settings: MemberSettings, backoff_ms: Callable[[int], int]) -> None:
        self.settings = settings
        self.phase = Phase.OUT
        self.membership = Membership()
        self._backoff_ms = backoff_ms
        self._protocols: Protocols = {}
        self._protocol_name = ""
        self._reason = "start"
        self._rejoin_reason: str | None = None  # set when the coming agreement will be out of date
        self._skips_assignment = False
        self._assignments: Mapping[str, bytes] = {}
        self._asked: Any = None  # the JoinGroup, SyncGroup or LeaveGroup under way
        self._heartbeat: HeartbeatRequest | None = None  # the one under way
        self._heartbeat_at_ms = 0
        self._has_coordinator = False
        self._is_finding = False
        self._failures = 0
        self._retry_at_ms: int | None = None
        self._idle_since_ms: int | None = None  # None while the application waits for records
        self._leave_until_ms = 0

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """The effects of an event, and of deadlines that have passed by now."""
        return [*self._hear(event, now_ms), *self._due(now_ms)]

    @property
    def next_deadline_ms(self) -> int | None:
        """When to `step` next if nothing else happens."""
        if self.phase in _OUTSIDE:
            return None
        is_leaving = self.phase is Phase.LEAVING
        deadlines = [self._leave_until_ms if is_leaving else self._poll_deadline_ms(), self._retry_at_ms]
        if self._retry_at_ms is None and not self._is_finding and self._beats():
            deadlines.append(self._heartbeat_at_ms)
        return min((each for each in deadlines if each is not None), default=None)

    # ---- events

    def _hear(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Answered(request, response):
                return self._answered(request, response, now_ms)
            case Unanswered(request):
                return self._unanswered(request, now_ms)
            case Unanswerable(request, error):
                return self._unanswerable(request, error)
            case CoordinatorFound():
                self._is_finding, self._has_coordinator = False, True
                self._heartbeat_at_ms = now_ms  # it may have been silent for a while
            case CoordinatorNotFound(error):
                self._is_finding = False
                if error is not None and not error.code.retriable:
                    return self._end(None if self.phase is Phase.LEAVING else error)
                self._pause(now_ms)
            case _:
                return self._told(event, now_ms)
        return []

    def _told(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle an event of the shell or the application. One that does not fit the phase is late."""
        match event:
            case PollBegan():
                self._idle_since_ms = None
            case PollEnded():
                self._idle_since_ms = now_ms
            case Start(protocols) if self.phase is Phase.OUT:
                self._idle_since_ms = now_ms
                self._join(protocols)
            case Prepared(protocols) if self.phase is Phase.PREPARING:
                self._join(protocols)
            case Assigned(generation_id, assignments) if self._is_assigning(generation_id):
                self._assignments = {} if self._skips_assignment else assignments
                self._to(Phase.SYNCING)
            case Rejoin(reason):
                return self._rejoin(reason)
            case Refused(generation_id, code) if generation_id == self.membership.generation_id:
                return self._refused(code)
            case Stop(reason):
                return self._stop(reason, now_ms)
        return []

    # ---- deadlines

    def _due(self, now_ms: int) -> list[Effect]:
        if self.phase in _OUTSIDE:
            return []
        if self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
            self._retry_at_ms = None
        if self.phase is Phase.LEAVING:
            return self._ask_to_leave(now_ms)
        deadline_ms = self._poll_deadline_ms()
        if deadline_ms is not None and now_ms >= deadline_ms:
            return self._give_up()
        if self._retry_at_ms is not None:
            return []
        if self._has_coordinator:
            return [*self._ask_to_join_or_sync(), *self._ask_heartbeat(now_ms)]
        wants = self._wants_to_ask() or (self._beats() and now_ms >= self._heartbeat_at_ms)
        return self._find() if wants else []

    def _wants_to_ask(self) -> bool:
        return self.phase in (Phase.JOINING, Phase.SYNCING) and self._asked is None

    def _ask_to_join_or_sync(self) -> list[Effect]:
        if not self._wants_to_ask():
            return []
        if self.phase is Phase.JOINING:
            self._asked = join_request(self.settings, self.membership, self._protocols, self._reason)
        else:
            self._asked = sync_request(self.settings, self.membership, self._protocol_name, self._assignments)
        wait_ms = self.settings.rebalance_timeout_ms + JOIN_GRACE_MS
        return [Ask(self._asked, max(wait_ms, self.settings.request_timeout_ms))]

    def _ask_to_leave(self, now_ms: int) -> list[Effect]:
        left_ms = self._leave_until_ms - now_ms
        if left_ms <= 0:
            return self._end()
        if self._retry_at_ms is not None or self._asked is not None:
            return []
        if not self._has_coordinator:
            return self._find()
        self._asked = leave_request(self.settings, self.membership, self._reason)
        return [Ask(self._asked, left_ms)]

    def _ask_heartbeat(self, now_ms: int) -> list[Effect]:
        if not self._beats() or now_ms < self._heartbeat_at_ms:
            return []
        self._heartbeat = heartbeat_request(self.settings, self.membership)
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        wait_ms = min(self.settings.request_timeout_ms, self.settings.session_timeout_ms)
        return [Ask(self._heartbeat, wait_ms)]

    def _find(self) -> list[Effect]:
        if self._is_finding:
            return []
        self._is_finding = True
        return [FindCoordinator()]

    def _beats(self) -> bool:
        """Whether a heartbeat will be sent when its time comes."""
        return self.phase in _MEMBER and self._is_member() and self._heartbeat is None

    def _poll_deadline_ms(self) -> int | None:
        # A member that has lost its membership already cannot lose it for being slow.
        is_lost = self.phase is Phase.PREPARING and not self._is_member()
        if self._idle_since_ms is None or is_lost:
            return None
        return self._idle_since_ms + self.settings.rebalance_timeout_ms

    # ---- answers

    def _answered(self, request: Any, response: Any, now_ms: int) -> list[Effect]:
        if request is self._heartbeat:
            self._heartbeat = None
            return self._beaten(response, now_ms)
        if request is not self._asked:
            return []
        self._asked = None
        if isinstance(response, JoinGroupResponse):
            return self._joined(response, now_ms)
        if isinstance(response, SyncGroupResponse):
            return self._synced(response, now_ms)
        return self._left(response, now_ms)

    def _unanswered(self, request: Any, now_ms: int) -> list[Effect]:
        if request is not self._asked and request is not self._heartbeat:
            return []
        self._lose_coordinator(now_ms)
        return []

    def _unanswerable(self, request: Any, error: KafkaError) -> list[Effect]:
        if request is not self._asked and request is not self._heartbeat:
            return []
        return self._end(None if self.phase is Phase.LEAVING else error)

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> list[Effect]:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.membership = Membership(response.member_id)
            self._to(Phase.JOINING)
            return []
        if response.error_code != ErrorCode.NONE:
            return self._failed(response.error_code, now_ms)
        self._protocol_name = response.protocol_name or ""
        if self._protocol_name not in self._protocols:
            return self._end(_unknown_protocol(self._protocol_name))
        self._failures, self._assignments = 0, {}
        self.membership = Membership(response.member_id, response.generation_id)
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        if response.leader != response.member_id:
            self._to(Phase.SYNCING)
            return []
        # A static leader that came back need not assign again, but it must know the group's topics to watch
        # them.
        self._skips_assignment = response.skip_assignment
        self._to(Phase.ASSIGNING)
        members = joined_members(response)
        return [Assign(response.generation_id, self._protocol_name, members, response.skip_assignment)]

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> list[Effect]:
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._to(Phase.JOINING)
            return []
        if response.error_code != ErrorCode.NONE:
            return self._failed(response.error_code, now_ms)
        self._failures, self._assignments = 0, {}
        self._to(Phase.STABLE)
        adopt = Adopt(self.membership.generation_id, self._protocol_name, bytes(response.assignment))
        return [adopt, *(self._rejoin(self._rejoin_reason) if self._rejoin_reason else ())]

    def _left(self, response: LeaveGroupResponse, now_ms: int) -> list[Effect]:
        error = error_of(response.error_code)
        if error.code in _COORDINATOR_LOST:
            self._lose_coordinator(now_ms)
        elif error.code.retriable:
            self._pause(now_ms)
        else:
            return self._end()  # the member has left, or is unknown
        return []

    def _failed(self, code: int, now_ms: int) -> list[Effect]:
        """A join or sync was answered with an error."""
        error = error_of(code)
        if error.code in _MEMBERSHIP_LOST:
            if not self.membership.member_id:
                self._pause(
                    now_ms
                )  # whatever the coordinator does not know, it is not our id: do not storm it
            self._forget_membership(error.code)
            self._to(Phase.JOINING)
        elif error.code in _COORDINATOR_LOST:
            self._lose_coordinator(now_ms)
        elif error.code.retriable or error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._pause(now_ms)
        else:
            return self._end(error)
        return []

    def _beaten(self, response: HeartbeatResponse, now_ms: int) -> list[Effect]:
        if response.error_code == ErrorCode.NONE:
            self._failures = 0
            return []
        error = error_of(response.error_code)
        if error.code in _COORDINATOR_LOST:
            self._lose_coordinator(now_ms)
        elif error.code.retriable:
            self._pause(now_ms)
        else:
            return self._refused(error.code)
        return []

    def _refused(self, code: ErrorCode) -> list[Effect]:
        """A heartbeat or a commit heard that the group does not stand as this member thinks."""
        holds = self.phase in _HOLDS_ASSIGNMENT
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return self._rejoin("the group rebalances") if self.phase is Phase.STABLE else []
        if code in _MEMBERSHIP_LOST and holds:
            self._forget_membership(code)
            return self._prepare(f"refused with {code.name}", is_lost=True)
        # In other phases the answer to the join or sync will say the same.
        return [] if code in _MEMBERSHIP_LOST else self._end(KafkaError(code))

    # ---- changes

    def _to(self, phase: Phase) -> None:
        assert (self.phase, phase) in TRANSITIONS, f"there is no way from {self.phase} to {phase}"
        self.phase, self._asked = phase, None

    def _join(self, protocols: Protocols) -> None:
        self._protocols, self._rejoin_reason = protocols, None
        self._heartbeat = None  # its answer would be about a membership that is over
        self._to(Phase.JOINING)

    def _rejoin(self, reason: str) -> list[Effect]:
        if self.phase is Phase.STABLE:
            return self._prepare(reason, is_lost=False)
        if self.phase in (Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING):
            self._rejoin_reason = reason
        return []

    def _prepare(self, reason: str, *, is_lost: bool) -> list[Effect]:
        self._reason = reason
        self._to(Phase.PREPARING)
        return [Prepare(is_lost)]

    def _give_up(self) -> list[Effect]:
        """Leave, because the application does not ask for records: others should get its partitions."""
        reason = f"no poll within {self.settings.rebalance_timeout_ms} ms"
        leave = leave_request(self.settings, self.membership, reason)
        goodbye = [Ask(leave, LEAVE_TIMEOUT_MS)] if leave is not None and self._has_coordinator else []
        self._forget_membership(ErrorCode.UNKNOWN_MEMBER_ID)
        return [*goodbye, *self._prepare(reason, is_lost=True)]

    def _stop(self, reason: str, now_ms: int) -> list[Effect]:
        if self.phase in (Phase.LEAVING, Phase.OVER):
            return []
        if leave_request(self.settings, self.membership, reason) is None:
            return self._end()
        self._to(Phase.LEAVING)
        self._heartbeat = None  # only the answer to LeaveGroup matters from here on
        self._reason, self._leave_until_ms = reason, now_ms + LEAVE_TIMEOUT_MS
        self._failures, self._retry_at_ms = 0, None
        return []

    def _end(self, error: KafkaError | None = None) -> list[Effect]:
        if self.phase is Phase.OVER:
            return []
        self._to(Phase.OVER)
        self._forget_membership(ErrorCode.UNKNOWN_MEMBER_ID)
        return [Ended(error)]

    def _forget_membership(self, code: ErrorCode) -> None:
        """Forget the generation.

        The id is kept if it is still valid: otherwise the old member would stay in the group.
        """
        keeps_id = code != ErrorCode.UNKNOWN_MEMBER_ID
        self.membership = Membership(self.membership.member_id if keeps_id else NO_MEMBER_ID)
        self._heartbeat = None

    def _lose_coordinator(self, now_ms: int) -> None:
        self._has_coordinator = False
        self._asked = self._heartbeat = None
        self._pause(now_ms)

    def _pause(self, now_ms: int) -> None:
        self._failures += 1
        self._retry_at_ms = now_ms + self._backoff_ms(self._failures)

    def _is_member(self) -> bool:
        return self.membership.generation_id != NO_GENERATION

    def _is_assigning(self, generation_id: int) -> bool:
        return self.phase is Phase.ASSIGNING and generation_id == self.membership.generation_id


def _unknown_protocol(name: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f'the group chose the protocol "{name}", which was not offered'
    )
