"""A group member with a clock and a coordinator that answers it."""

from __future__ import annotations

from typing import Any

from ottla.client.membership.machine.group_member import GroupMember, Phase
from ottla.client.requests.member_events import (
    Answered,
    Ask,
    CoordinatorFound,
    Effect,
    Event,
    FindCoordinator,
    PollBegan,
    Start,
    Tick,
)
from ottla.client.requests.member_requests import MemberSettings
from ottla.errors import ErrorCode
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

PROTOCOLS = {"range": b"topics"}
HEARTBEAT_MS, SESSION_MS, REBALANCE_MS, BACKOFF_MS = 3_000, 10_000, 60_000, 100


class Driver:
    """A member with a clock, and a memory of the last request of each kind."""

    def __init__(self, group_instance_id: str | None = None) -> None:
        settings = MemberSettings(
            group_id="g",
            group_instance_id=group_instance_id,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        self.member = GroupMember(settings, lambda failures: BACKOFF_MS * failures)
        self.now_ms = 1_000
        self.asked: dict[type[Any], Any] = {}

    def __call__(self, event: Event, *, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        effects = self.member.step(event, self.now_ms)
        self.asked.update({type(each.request): each.request for each in effects if isinstance(each, Ask)})
        return effects

    def answer(self, request_type: type[Any], response: Any) -> list[Effect]:
        return self(Answered(self.asked[request_type], response))

    def join(self, *, leader: str = "other", generation_id: int = 1) -> list[Effect]:
        """The answer to the join under way: this member is m-1."""
        members = [JoinGroupResponseMember(member_id="m-1", metadata=b"topics")] if leader == "m-1" else []
        return self.answer(
            JoinGroupRequest,
            JoinGroupResponse(
                generation_id=generation_id,
                protocol_name="range",
                leader=leader,
                member_id="m-1",
                members=members,
            ),
        )

    def sync(self) -> list[Effect]:
        return self.answer(SyncGroupRequest, SyncGroupResponse(assignment=b"mine"))

    def refuse(self, request_type: type[Any], code: ErrorCode) -> list[Effect]:
        responses = {
            JoinGroupRequest: JoinGroupResponse,
            SyncGroupRequest: SyncGroupResponse,
            HeartbeatRequest: HeartbeatResponse,
        }
        return self.answer(request_type, responses[request_type](error_code=code))

    def beat(self, code: ErrorCode = ErrorCode.NONE) -> list[Effect]:
        """Let the next heartbeat go out, and answer it."""
        (sent,) = self(Tick(), after_ms=HEARTBEAT_MS)
        assert requests_of([sent]) == [HeartbeatRequest]
        return self.refuse(HeartbeatRequest, code)


def requests_of(effects: list[Effect]) -> list[type[Any]]:
    return [type(each.request) for each in effects if isinstance(each, Ask)]


def joining(group_instance_id: str | None = None) -> Driver:
    driver = Driver(group_instance_id)
    assert driver(Start(PROTOCOLS)) == [FindCoordinator()]
    assert requests_of(driver(CoordinatorFound())) == [JoinGroupRequest]
    return driver


def stable(group_instance_id: str | None = None) -> Driver:
    """A follower that has its assignment, and whose application waits for records."""
    driver = joining(group_instance_id)
    driver.join()
    driver.sync()
    driver(PollBegan())
    assert driver.member.phase is Phase.STABLE
    return driver
