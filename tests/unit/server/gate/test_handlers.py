from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages.groups import HeartbeatRequest, LeaveGroupRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.server.answers.send_queue import Part
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.session import Session

NO_SERVICES: Any = None
SESSION = Session("PLAINTEXT", "127.0.0.1", 1)


class Gathered:
    """Answers with the names of the requests it was given."""

    def __init__(self, services: Any, session: Session) -> None:
        assert session is SESSION
        self._parts: list[Part] = []

    @property
    def request_count(self) -> int:
        return len(self._parts)

    def repeats(self, *_: Any) -> bool:
        return False

    def add(self, context: RequestContext, request: Any) -> None:
        self._parts.append(f"{context.version} {request.acks}".encode())

    def learn(self, frame: memoryview) -> None:
        raise AssertionError("a request that comes alone has no frame to learn")

    def finish(self) -> list[Part]:
        return self._parts


def test_a_function_is_registered_for_each_request_that_it_names_and_stays_a_function() -> None:
    api = ApiFamily()

    @api.handles(HeartbeatRequest, LeaveGroupRequest)
    def ask(context: RequestContext, request: Any) -> str:
        return "asked"

    assert {ApiKey(key) for key in api.registered} == {ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP}
    assert {registration.handler for registration in api.registered.values()} == {ask}
    assert {registration.make_gatherer for registration in api.registered.values()} == {None}


def test_a_request_has_one_handler() -> None:
    api = ApiFamily()
    api.handles(HeartbeatRequest)(lambda context, request: None)
    with pytest.raises(AssertionError, match="HeartbeatRequest has two handlers"):
        api.handles(HeartbeatRequest)(lambda context, request: None)


def test_a_gathered_request_that_comes_alone_is_answered_by_a_gatherer_of_its_own() -> None:
    api = ApiFamily()
    api.gathers(ProduceRequest)(Gathered)
    registration = api.registered[ApiKey.PRODUCE]
    context = RequestContext(NO_SERVICES, RequestHeader(ApiKey.PRODUCE, 9, 1, "shop"), SESSION)
    assert registration.make_gatherer is Gathered
    assert registration.handler(context, ProduceRequest(acks=1)) == [b"9 1"]
    assert registration.handler(context, ProduceRequest(acks=-1)) == [b"9 -1"]
