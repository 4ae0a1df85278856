"""A member of a group under random events, in any order (GRP-1, GRP-4, GRP-7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.member_driver import (
    PROTOCOLS,
    Driver,
)

from ottla.client.membership.machine.group_member import TRANSITIONS, Phase
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
    Refused,
    Rejoin,
    Start,
    Tick,
    Unanswered,
)
from ottla.errors import ErrorCode
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

CODES = st.sampled_from(
    [
        ErrorCode.NONE,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
)
KINDS = ["tick", "join", "sync", "beat", "silence", "found", "lost", "prepared", "assigned", "begin", "end"]
KINDS += ["rejoin", "refused"]


@given(st.lists(st.tuples(st.sampled_from(KINDS), CODES, st.integers(0, 20_000)), max_size=60))
def test_whatever_happens_the_member_waits_for_something(
    story: list[tuple[str, ErrorCode, int]],
) -> None:
    """No event takes a way that is not in the table, and a member that is not over has a deadline, a request
    under way, a search under way, or an application to wait for.
    """
    driver, waiting = Driver(), list[Effect]()
    waiting += driver(Start(PROTOCOLS))
    for kind, code, after_ms in story:
        event = _event(kind, code, driver)
        waiting = [each for each in waiting if not _answers(event, each)]
        waiting += driver(event, after_ms=after_ms)
        member = driver.member
        if member.phase is Phase.OVER:
            assert isinstance(waiting[-1], Ended)
            return
        assert member.next_deadline_ms is not None or waiting, f"{member.phase} waits for nothing"
        deadline_ms = member.next_deadline_ms
        assert deadline_ms is None or deadline_ms > driver.now_ms, "what is due is done"


def _event(kind: str, code: ErrorCode, driver: Driver) -> Event:
    asked, generation_id = driver.asked, driver.member.membership.generation_id
    joined = JoinGroupResponse(
        error_code=code, generation_id=7, protocol_name="range", leader="m-1", member_id="m-1"
    )
    events: dict[str, Event] = {
        "join": Answered(asked.get(JoinGroupRequest), joined),
        "sync": Answered(asked.get(SyncGroupRequest), SyncGroupResponse(error_code=code)),
        "beat": Answered(asked.get(HeartbeatRequest), HeartbeatResponse(error_code=code)),
        "silence": Unanswered(asked.get(HeartbeatRequest) or asked.get(JoinGroupRequest)),
        "found": CoordinatorFound(),
        "lost": CoordinatorNotFound(),
        "prepared": Prepared(PROTOCOLS),
        "assigned": Assigned(generation_id, {}),
        "begin": PollBegan(),
        "end": PollEnded(),
        "rejoin": Rejoin("because"),
        "refused": Refused(generation_id, ErrorCode.ILLEGAL_GENERATION),
    }
    event = events.get(kind, Tick())
    return Tick() if getattr(event, "request", event) is None else event


def _answers(event: Event, effect: Effect) -> bool:
    if isinstance(effect, Ask):
        return getattr(event, "request", None) is effect.request
    if isinstance(effect, FindCoordinator):
        return isinstance(event, CoordinatorFound | CoordinatorNotFound)
    return (
        isinstance(effect, Adopt)
        or (isinstance(effect, Prepare) and isinstance(event, Prepared))
        or (isinstance(effect, Assign) and isinstance(event, Assigned))
    )


def test_every_phase_but_the_first_can_be_reached_and_every_one_but_the_last_be_left() -> None:
    assert {after for _, after in TRANSITIONS} == set(Phase) - {Phase.OUT}
    assert {before for before, _ in TRANSITIONS} == set(Phase) - {Phase.OVER}
