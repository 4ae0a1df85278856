"""A member of a group, by the effects that its machine answers (GRP-1, GRP-4, GRP-7)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.member_driver import (
    BACKOFF_MS,
    HEARTBEAT_MS,
    PROTOCOLS,
    REBALANCE_MS,
    SESSION_MS,
    Driver,
    joining,
    requests_of,
    stable,
)

from ottla.client.membership.machine.group_member import LEAVE_TIMEOUT_MS, Phase
from ottla.client.requests.member_events import (
    Adopt,
    Answered,
    Ask,
    Assign,
    Assigned,
    CoordinatorFound,
    CoordinatorNotFound,
    Ended,
    FindCoordinator,
    JoinedMember,
    PollBegan,
    PollEnded,
    Prepare,
    Prepared,
    Refused,
    Rejoin,
    Start,
    Stop,
    Tick,
    Unanswerable,
    Unanswered,
)
from ottla.client.requests.membership import Membership
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)

# ---- joining


def test_the_first_join_tells_the_coordinator_all_about_the_member() -> None:
    driver = joining("i")
    request = driver.asked[JoinGroupRequest]
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "", "i")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
    assert (request.protocol_type, request.reason) == ("consumer", "start")
    assert [(each.name, each.metadata) for each in request.protocols] == [("range", b"topics")]


def test_a_join_may_take_as_long_as_a_rebalance() -> None:
    driver = Driver()
    driver(Start(PROTOCOLS))
    (ask,) = driver(CoordinatorFound())
    assert isinstance(ask, Ask)
    assert ask.timeout_ms == REBALANCE_MS + 5_000


def test_a_member_without_an_id_joins_again_with_the_one_it_is_given() -> None:
    driver = joining()
    answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1")
    assert requests_of(driver.answer(JoinGroupRequest, answer)) == [JoinGroupRequest]
    assert driver.asked[JoinGroupRequest].member_id == "m-1"
    assert driver.member.membership == Membership("m-1")


def test_a_follower_syncs_without_assignments_and_adopts_what_it_gets() -> None:
    driver = joining()
    assert requests_of(driver.join(generation_id=4)) == [SyncGroupRequest]
    request = driver.asked[SyncGroupRequest]
    assert (request.generation_id, request.member_id, request.assignments) == (4, "m-1", [])
    assert (request.protocol_type, request.protocol_name) == ("consumer", "range")
    assert driver.sync() == [Adopt(4, "range", b"mine")]
    assert driver.member.phase is Phase.STABLE


def test_a_leader_divides_and_sends_everybody_its_share() -> None:
    driver = joining()
    members = (JoinedMember("m-1", None, b"topics"),)
    assert driver.join(leader="m-1", generation_id=2) == [Assign(2, "range", members)]
    assert driver(Assigned(1, {"m-1": b"late"})) == []
    assert requests_of(driver(Assigned(2, {"m-1": b"mine"}))) == [SyncGroupRequest]
    (sent,) = driver.asked[SyncGroupRequest].assignments
    assert (sent.member_id, sent.assignment) == ("m-1", b"mine")


def test_a_static_leader_that_came_back_does_not_assign_anew_but_knows_the_members() -> None:
    driver = joining("i")
    answer = JoinGroupResponse(
        generation_id=2, protocol_name="range", leader="m-1", member_id="m-1", skip_assignment=True
    )
    assert driver.answer(JoinGroupRequest, answer) == [Assign(2, "range", (), is_divided=True)]
    driver(Assigned(2, {"m-1": b"mine"}))
    assert driver.asked[SyncGroupRequest].assignments == []


def test_a_protocol_that_was_not_offered_ends_the_membership() -> None:
    driver = joining()
    answer = JoinGroupResponse(generation_id=1, protocol_name="sticky", leader="x", member_id="m-1")
    (ended,) = driver.answer(JoinGroupRequest, answer)
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert ended.error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("request_type", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_the_coordinator_is_looked_for_again_after_a_pause_and_asked_the_same(
    request_type: type[Any], code: ErrorCode
) -> None:
    driver = joining()
    if request_type is SyncGroupRequest:
        driver.join()
    assert driver.refuse(request_type, code) == []
    assert driver.member.next_deadline_ms == driver.now_ms + BACKOFF_MS
    assert driver(Tick(), after_ms=BACKOFF_MS - 1) == []
    assert driver(Tick(), after_ms=1) == [FindCoordinator()]
    assert driver(Tick(), after_ms=10_000) == []
    assert request_type in requests_of(driver(CoordinatorFound()))


def test_a_coordinator_that_is_loading_is_asked_again_after_a_growing_pause() -> None:
    driver = joining()
    for failures in (1, 2, 3):
        assert driver.refuse(JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == []
        assert requests_of(driver(Tick(), after_ms=BACKOFF_MS * failures)) == [JoinGroupRequest]


def test_a_lost_connection_leads_to_a_new_search() -> None:
    driver = joining()
    assert driver(Unanswered(driver.asked[JoinGroupRequest])) == []
    assert driver(Tick(), after_ms=BACKOFF_MS) == [FindCoordinator()]


def test_a_coordinator_that_cannot_be_found_is_looked_for_again_unless_it_never_will_be() -> None:
    driver = Driver()
    driver(Start(PROTOCOLS))
    assert driver(CoordinatorNotFound()) == []
    assert driver(Tick(), after_ms=BACKOFF_MS) == [FindCoordinator()]
    assert driver(CoordinatorNotFound(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))) == []
    assert driver(Tick(), after_ms=2 * BACKOFF_MS) == [FindCoordinator()]
    refused = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert driver(CoordinatorNotFound(refused)) == [Ended(refused)]


def test_an_id_that_the_coordinator_does_not_know_is_dropped() -> None:
    driver = joining()
    driver.answer(
        JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1")
    )
    assert requests_of(driver.refuse(JoinGroupRequest, ErrorCode.UNKNOWN_MEMBER_ID)) == [JoinGroupRequest]
    assert driver.asked[JoinGroupRequest].member_id == ""
    assert (
        driver.refuse(JoinGroupRequest, ErrorCode.UNKNOWN_MEMBER_ID) == []
    )  # the second time it takes a breath
    assert requests_of(driver(Tick(), after_ms=BACKOFF_MS)) == [JoinGroupRequest]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ],
)
def test_what_waiting_does_not_cure_ends_the_membership(code: ErrorCode) -> None:
    (ended,) = joining().refuse(JoinGroupRequest, code)
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert ended.error.code == code


def test_a_broker_that_does_not_know_groups_ends_the_membership() -> None:
    driver = joining()
    error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    assert driver(Unanswerable(driver.asked[JoinGroupRequest], error)) == [Ended(error)]
    assert driver.member.phase is Phase.OVER


def test_a_sync_into_a_new_rebalance_joins_again() -> None:
    driver = joining()
    driver.join()
    assert requests_of(driver.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)) == [JoinGroupRequest]
    assert driver.asked[JoinGroupRequest].member_id == "m-1"


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m-1")]
)
def test_a_sync_that_is_refused_joins_anew(code: ErrorCode, member_id: str) -> None:
    driver = joining()
    driver.join()
    assert requests_of(driver.refuse(SyncGroupRequest, code)) == [JoinGroupRequest]
    assert driver.asked[JoinGroupRequest].member_id == member_id


# ---- heartbeats


def test_heartbeats_go_out_on_their_own_schedule_one_at_a_time() -> None:
    driver = stable()
    assert driver.member.next_deadline_ms == driver.now_ms + HEARTBEAT_MS
    assert driver(Tick(), after_ms=HEARTBEAT_MS - 1) == []
    (ask,) = driver(Tick(), after_ms=1)
    assert isinstance(ask, Ask)
    assert ask.timeout_ms == SESSION_MS
    assert (ask.request.group_id, ask.request.generation_id, ask.request.member_id) == ("g", 1, "m-1")
    assert driver(Tick(), after_ms=2 * HEARTBEAT_MS) == []
    assert requests_of(driver.answer(HeartbeatRequest, HeartbeatResponse())) == [HeartbeatRequest]


def test_heartbeats_go_on_while_the_leader_divides_and_while_a_member_waits_for_its_share() -> None:
    driver = joining()
    driver.join(leader="m-1")
    assert driver.beat() == []
    driver(Assigned(1, {}))
    assert driver.beat(ErrorCode.REBALANCE_IN_PROGRESS) == []
    assert driver.member.phase is Phase.SYNCING


def test_a_rebalance_asks_the_application_to_let_go_and_then_joins_again() -> None:
    driver = stable()
    assert driver.beat(ErrorCode.REBALANCE_IN_PROGRESS) == [Prepare(is_lost=False)]
    assert driver.beat(ErrorCode.REBALANCE_IN_PROGRESS) == []  # heartbeats go on meanwhile
    assert requests_of(driver(Prepared({"range": b"new"}))) == [JoinGroupRequest]
    request = driver.asked[JoinGroupRequest]
    assert (request.member_id, request.protocols[0].metadata) == ("m-1", b"new")
    assert request.reason == "the group rebalances"
    assert driver(Tick(), after_ms=HEARTBEAT_MS) == []  # the join stands for them


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m-1")]
)
def test_who_the_group_went_on_without_has_lost_everything(code: ErrorCode, member_id: str) -> None:
    driver = stable()
    assert driver.beat(code) == [Prepare(is_lost=True)]
    assert driver.member.membership == Membership(member_id)
    assert driver(Tick(), after_ms=HEARTBEAT_MS) == []
    driver(Prepared(PROTOCOLS))
    assert driver.asked[JoinGroupRequest].member_id == member_id


def test_what_is_given_up_can_get_lost_on_the_way() -> None:
    driver = stable()
    assert driver.beat(ErrorCode.REBALANCE_IN_PROGRESS) == [Prepare(is_lost=False)]
    assert driver.beat(ErrorCode.ILLEGAL_GENERATION) == [Prepare(is_lost=True)]


def test_a_fenced_static_member_is_out_for_good() -> None:
    driver = stable("i")
    (ended,) = driver.beat(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(ended, Ended)
    assert driver.member.phase is Phase.OVER
    assert driver(Tick(), after_ms=10 * HEARTBEAT_MS) == []


def test_a_heartbeat_without_an_answer_keeps_the_membership_and_finds_the_coordinator() -> None:
    driver = stable()
    driver(Tick(), after_ms=HEARTBEAT_MS)
    assert driver(Unanswered(driver.asked[HeartbeatRequest])) == []
    assert driver.member.membership == Membership("m-1", 1)
    assert driver(Tick(), after_ms=HEARTBEAT_MS) == [FindCoordinator()]
    assert requests_of(driver(CoordinatorFound())) == [HeartbeatRequest]


def test_late_answers_change_nothing() -> None:
    driver = stable()
    driver(Tick(), after_ms=HEARTBEAT_MS)
    late = driver.asked[HeartbeatRequest]
    driver(Rejoin("new topics"))
    driver(Prepared(PROTOCOLS))
    assert driver(Answered(late, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))) == []
    assert driver(Unanswered(late)) == []
    assert driver(Unanswerable(late, KafkaError(ErrorCode.UNSUPPORTED_VERSION))) == []
    assert driver(Prepared(PROTOCOLS)) == []
    assert driver(Start(PROTOCOLS)) == []
    assert driver.member.phase is Phase.JOINING


# ---- the application


def test_a_new_subscription_joins_again() -> None:
    driver = stable()
    assert driver(Rejoin("other topics")) == [Prepare(is_lost=False)]
    driver(Prepared(PROTOCOLS))
    assert driver.asked[JoinGroupRequest].reason == "other topics"


def test_what_changes_while_the_group_assembles_leads_to_another_round() -> None:
    driver = joining()
    assert driver(Rejoin("other topics")) == []
    driver.join()
    assert driver.sync() == [Adopt(1, "range", b"mine"), Prepare(is_lost=False)]


def test_a_commit_can_hear_first_that_the_membership_is_lost() -> None:
    driver = stable()
    assert driver(Refused(0, ErrorCode.ILLEGAL_GENERATION)) == []  # of an older generation
    assert driver(Refused(1, ErrorCode.REBALANCE_IN_PROGRESS)) == [Prepare(is_lost=False)]
    assert driver(Refused(1, ErrorCode.UNKNOWN_MEMBER_ID)) == [Prepare(is_lost=True)]


def test_an_application_that_waits_for_records_is_never_too_slow() -> None:
    driver = stable()
    for _ in range(3 * REBALANCE_MS // HEARTBEAT_MS):
        assert driver.beat() == []


def test_an_application_that_does_not_ask_is_given_up_and_may_come_back() -> None:
    driver = stable()
    driver(PollEnded())
    for _ in range(REBALANCE_MS // HEARTBEAT_MS - 1):
        assert driver.beat() == []
    leave, prepare = driver(Tick(), after_ms=HEARTBEAT_MS)
    assert prepare == Prepare(is_lost=True)
    assert isinstance(leave, Ask)
    assert (leave.timeout_ms, leave.request.members[0].member_id) == (LEAVE_TIMEOUT_MS, "m-1")
    assert "no poll within" in leave.request.members[0].reason
    assert driver.member.next_deadline_ms is None
    assert driver(Answered(leave.request, LeaveGroupResponse())) == []
    assert driver(PollBegan()) == []
    assert requests_of(driver(Prepared(PROTOCOLS))) == [JoinGroupRequest]
    assert driver.asked[JoinGroupRequest].member_id == ""


def test_a_slow_application_of_a_static_member_loses_its_partitions_without_a_goodbye() -> None:
    driver = stable("i")
    driver(PollEnded())
    assert driver(Tick(), after_ms=REBALANCE_MS) == [Prepare(is_lost=True)]


# ---- leaving


def test_leaving_is_said_and_heard() -> None:
    driver = stable()
    (ask,) = driver(Stop("closed"))
    assert isinstance(ask, Ask)
    (identity,) = ask.request.members
    assert (ask.request.member_id, identity.member_id, identity.reason) == ("m-1", "m-1", "closed")
    assert driver(Stop("again")) == []
    assert driver.answer(LeaveGroupRequest, LeaveGroupResponse()) == [Ended()]
    assert driver(Stop("again")) == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_the_answer_to_a_heartbeat_does_not_hold_up_a_member_that_leaves(code: ErrorCode) -> None:
    driver = stable()
    driver(Tick(), after_ms=HEARTBEAT_MS)
    driver(Stop("closed"))
    assert driver.answer(HeartbeatRequest, HeartbeatResponse(error_code=code)) == []
    assert driver.answer(LeaveGroupRequest, LeaveGroupResponse()) == [Ended()]


def test_a_coordinator_that_moved_is_looked_up_and_told() -> None:
    driver = stable()
    driver(Stop("closed"))
    moved = LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert driver.answer(LeaveGroupRequest, moved) == []
    assert driver(Tick(), after_ms=BACKOFF_MS) == [FindCoordinator()]
    (ask,) = driver(CoordinatorFound())
    assert isinstance(ask, Ask)
    assert ask.timeout_ms < LEAVE_TIMEOUT_MS
    assert driver.answer(LeaveGroupRequest, LeaveGroupResponse()) == [Ended()]


def test_a_coordinator_that_is_not_known_at_the_time_is_looked_up_and_told() -> None:
    driver = stable()
    driver.beat(ErrorCode.NOT_COORDINATOR)
    assert driver(Stop("closed")) == [FindCoordinator()]
    (ask,) = driver(CoordinatorFound())
    assert isinstance(ask, Ask)
    assert ask.request.members[0].member_id == "m-1"
    assert driver.answer(LeaveGroupRequest, LeaveGroupResponse()) == [Ended()]


def test_a_coordinator_that_still_loads_its_groups_is_told_again() -> None:
    driver = stable()
    driver(Stop("closed"))
    loads = LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert driver.answer(LeaveGroupRequest, loads) == []
    assert requests_of(driver(Tick(), after_ms=BACKOFF_MS)) == [LeaveGroupRequest]
    unknown = LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert driver.answer(LeaveGroupRequest, unknown) == [Ended()]


def test_a_member_tries_to_leave_for_some_seconds_and_no_longer() -> None:
    driver = stable()
    driver(Stop("closed"))
    assert driver(Unanswered(driver.asked[LeaveGroupRequest])) == []
    assert driver(Tick(), after_ms=BACKOFF_MS) == [FindCoordinator()]
    assert driver(CoordinatorNotFound()) == []
    assert driver(Tick(), after_ms=LEAVE_TIMEOUT_MS) == [Ended()]
    assert driver.member.next_deadline_ms is None


def test_a_goodbye_that_nobody_understands_is_no_error() -> None:
    driver = stable()
    driver(Stop("closed"))
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert driver(Unanswerable(driver.asked[LeaveGroupRequest], error)) == [Ended()]
    driver = stable()
    driver.beat(ErrorCode.NOT_COORDINATOR)
    driver(Stop("closed"))
    refused = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert driver(CoordinatorNotFound(refused)) == [Ended()]


def test_a_static_member_keeps_its_place_when_it_stops() -> None:
    assert stable("i")(Stop("closed")) == [Ended()]


def test_who_has_no_id_has_nobody_to_say_goodbye_to() -> None:
    assert Driver()(Stop("closed")) == [Ended()]
