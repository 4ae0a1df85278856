"""Order of answers, gathering, back-pressure and the end of a connection, with handlers that a test answers
by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.server.connected import ConnectedClient, correlation_ids, frame

from ottla.config import QuotaConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import response_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.runtime.clock import monotonic_ms
from ottla.server.answers.deferred import Deferred
from ottla.server.answers.send_queue import Part
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.handlers import Answer, ApiFamily, RequestContext, UnanswerableError
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.request_counts import RequestCounts
from ottla.server.gate.services import Services
from ottla.server.gate.session import Session
from ottla.server.net.receive_buffer import BUSY_BYTES

VERSION = 9
# No socket takes that much at once.
LARGE_BYTES = 8 << 20


class Script:
    """The handlers of a broker that only does what its test says, and what was asked of it."""

    def __init__(self, is_open: bool = True) -> None:
        self.asked: list[str] = []
        # The answers of Metadata and of each gathered read, if they are to wait.
        self.metadata: list[asyncio.Future[MetadataResponse]] = []
        self.reads: list[Callable[[list[int]], Answer]] = []
        self.api_versions: Callable[[], ApiVersionsResponse] = ApiVersionsResponse
        api = ApiFamily()
        api.gathers(ProduceRequest)(lambda services, session: Reads(self, session))
        api.handles(MetadataRequest)(self._metadata)
        api.handles(ApiVersionsRequest)(self._api_versions)
        quotas = Quotas(QuotaConfig(), monotonic_ms)
        services: Any = SimpleNamespace(quotas=quotas, requests=RequestCounts())
        self.gate = Gate(services, api.registered.get)
        if is_open:
            self.gate.open()

    def _metadata(self, context: RequestContext, _: MetadataRequest) -> Awaitable[MetadataResponse]:
        self.asked.append(f"metadata {context.header.correlation_id}")
        future = asyncio.get_running_loop().create_future()
        self.metadata.append(future)
        return future

    def _api_versions(self, context: RequestContext, _: ApiVersionsRequest) -> ApiVersionsResponse:
        self.asked.append(f"api versions {context.header.correlation_id}")
        return self.api_versions()


class Reads:
    """A gatherer that notes which requests came together, and answers a read as its test says: at once,
    unless told otherwise.
    """

    def __init__(self, script: Script, session: Session) -> None:
        self._script = script
        self._ids: list[int] = []
        self._known: set[bytes] = set()

    @property
    def request_count(self) -> int:
        return len(self._ids)

    def repeats(
        self, data: bytearray, view: memoryview, start: int, end: int, version: int, number: int
    ) -> bool:
        if bytes(view[start + 12 : end]) not in self._known:
            return False
        self._ids.append(number)
        return True

    def add(self, context: RequestContext, request: ProduceRequest) -> None:
        self._ids.append(context.header.correlation_id)

    def learn(self, frame: memoryview) -> None:
        self._known.add(bytes(frame[8:]))

    def finish(self) -> Answer:
        ids, self._ids = self._ids, []
        self._script.asked.append(f"produce {' '.join(map(str, ids))}")
        answer = self._script.reads.pop(0) if self._script.reads else produced
        return answer(ids)


def produced(ids: list[int]) -> list[Part]:
    return [response_frame(number, ApiKey.PRODUCE, VERSION, ProduceResponse()) for number in ids]


def produce(number: int, acks: int = 1) -> bytes:
    return frame(ApiKey.PRODUCE, VERSION, ProduceRequest(acks=acks), number)


def metadata(number: int) -> bytes:
    return frame(ApiKey.METADATA, VERSION, MetadataRequest(), number)


def api_versions(number: int) -> bytes:
    return frame(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), number)


@contextmanager
def connected(script: Script, **options: Any) -> Iterator[ConnectedClient]:
    client = ConnectedClient(script.gate, **options)
    try:
        yield client
    finally:
        client.close()


class Later:
    """The answer of one read, in the hands of the test: a `Deferred`, as a wait for followers is."""

    def __init__(self) -> None:
        self.abandoned = 0
        self.deferred = Deferred(self._on_abandoned)
        self.ids: list[int] = []

    def __call__(self, ids: list[int]) -> Deferred:
        self.ids = ids
        return self.deferred

    def answer(self) -> None:
        self.deferred.settle(produced(self.ids))

    def _on_abandoned(self) -> None:
        self.abandoned += 1


def test_the_produce_requests_of_one_read_are_carried_out_together() -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client:
            await client.send(produce(1) + produce(2, acks=-1) + produce(3))
            assert script.asked == ["produce 1 2 3"]
            assert client.answered() == [1, 2, 3]
            await client.send(produce(4))
            assert script.asked[1:] == ["produce 4"]

    asyncio.run(scenario())


def test_another_request_among_them_divides_them_and_all_are_answered_in_order() -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client:
            await client.send(produce(1) + produce(2) + api_versions(3) + produce(4) + api_versions(5))
            assert script.asked == ["produce 1 2", "api versions 3", "produce 4", "api versions 5"]
            assert client.answered() == [1, 2, 3, 4, 5]

    asyncio.run(scenario())


def test_half_a_frame_waits_for_its_other_half() -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client:
            whole = produce(1) + produce(2)
            await client.send(whole[:-5])
            assert client.answered() == [1]
            await client.send(whole[-5:])
            assert client.answered() == [2]

    asyncio.run(scenario())


def test_reads_that_wait_may_be_answered_in_any_order_and_leave_in_theirs() -> None:
    async def scenario() -> None:
        script, waits = Script(), [Later(), Later(), Later()]
        script.reads = [*waits]
        with connected(script) as client:
            for number in (1, 2, 3):
                await client.send(produce(number))
            assert script.asked == ["produce 1", "produce 2", "produce 3"]
            await client.send(produce(4))  # known at once, and still behind the others
            waits[2].answer()
            waits[1].answer()
            await client.turns()
            assert (client.answered(), client.connection.is_owed_an_answer) == ([], True)
            waits[0].answer()
            await client.turns()
            assert (client.answered(), client.connection.is_owed_an_answer) == ([1, 2, 3, 4], False)

    asyncio.run(scenario())


def test_a_request_that_waits_holds_up_those_behind_it() -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client:
            await client.send(metadata(1) + produce(2) + api_versions(3))
            await client.send(produce(4))
            assert script.asked == ["metadata 1"]
            script.metadata[0].set_result(MetadataResponse())
            await client.turns()
            assert script.asked[1:] == ["produce 2", "api versions 3", "produce 4"]
            assert client.answered() == [1, 2, 3, 4]

    asyncio.run(scenario())


def test_a_request_of_another_kind_waits_for_gathered_ones_before_it() -> None:
    async def scenario() -> None:
        script, wait = Script(), Later()
        script.reads = [wait]
        with connected(script) as client:
            await client.send(produce(1) + api_versions(2))
            assert script.asked == ["produce 1"]
            wait.answer()
            await client.turns()
            assert script.asked[1:] == ["api versions 2"]
            assert client.answered() == [1, 2]

    asyncio.run(scenario())


def test_clients_wait_for_the_gate_to_open_and_other_nodes_do_not() -> None:
    async def scenario() -> None:
        script = Script(is_open=False)
        with connected(script) as client:
            await client.send(api_versions(1) + produce(2) + metadata(3))
            assert client.answered() == [1]
            script.gate.open()
            client.connection.resume()
            await client.turns()
            assert client.answered() == [2]
            assert script.asked == ["api versions 1", "produce 2", "metadata 3"]

    asyncio.run(scenario())


def test_a_client_that_takes_no_answers_gets_no_further_ones_made() -> None:
    async def scenario() -> None:
        script = Script()
        script.reads = [lambda ids: [bytes(LARGE_BYTES)]]
        with connected(script, max_queued_bytes=1 << 20) as client:
            await client.send(produce(1))
            await client.send(produce(2) + api_versions(3))
            assert script.asked == ["produce 1"]
            received = b""
            while len(received) < LARGE_BYTES:
                received += client.received()
                await client.turns()
            assert script.asked[1:] == ["produce 2", "api versions 3"]
            assert correlation_ids(received[LARGE_BYTES:] + client.received()) == [2, 3]

    asyncio.run(scenario())


def test_requests_that_cannot_be_handled_yet_are_not_read_without_end() -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client:
            await client.send(metadata(1))
            assert await client.send_what_is_taken(64 * BUSY_BYTES) < 64 * BUSY_BYTES
            assert client.connection.received_bytes < 4 * BUSY_BYTES

    asyncio.run(scenario())


def test_requests_before_an_unusable_one_are_answered_before_the_connection_is_closed() -> None:
    async def scenario() -> None:
        script, wait = Script(), Later()
        script.reads = [wait]
        with connected(script) as client:
            unknown = frame(ApiKey.METADATA, VERSION, MetadataRequest(), 2).replace(
                b"\0\x03\0\x09", b"\x03\xe8\0\x09"
            )
            await client.send(produce(1) + unknown)
            assert not client.connection.is_closed
            wait.answer()
            await client.turns()
            assert client.answered() == [1]
            assert (client.connection.is_closed, client.closed) == (True, 1)

    asyncio.run(scenario())


def refuse(ids: list[int]) -> Answer:
    raise UnanswerableError("nothing could say so", produced(ids[:-1]))


def test_a_failure_that_no_answer_can_tell_closes_the_connection_after_the_answers_before_it() -> None:
    async def scenario() -> None:
        script = Script()
        script.reads = [refuse]
        with connected(script) as client:
            await client.send(produce(1) + produce(2) + produce(3, acks=0))
            assert client.answered() == [1, 2]
            assert client.connection.is_closed

    asyncio.run(scenario())


def fail_internally() -> ApiVersionsResponse:
    raise RuntimeError("a defect")


def refuse_the_request() -> ApiVersionsResponse:
    raise KafkaError(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("failing", [fail_internally, refuse_the_request])
def test_a_handler_that_raises_closes_only_its_connection(failing: Callable[[], ApiVersionsResponse]) -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client, connected(script) as other:
            script.api_versions = failing
            await client.send(api_versions(1))
            assert client.connection.is_closed
            await other.send(produce(2))
            assert other.answered() == [2]

    asyncio.run(scenario())


def test_the_end_of_a_connection_is_told_once_and_whoever_worked_for_it_lets_go() -> None:
    async def scenario() -> None:
        script, wait = Script(), Later()
        script.reads = [wait]
        with connected(script) as client:
            told: list[str] = []
            client.session.call_when_closed("beats", lambda: told.append("replaced"))
            client.session.call_when_closed("beats", lambda: told.append("beats"))
            client.session.call_when_closed("quota", lambda: told.append("quota"))
            await client.send(produce(1))
            client.hang_up()
            await client.turns()
            assert client.connection.is_closed
            assert (client.closed, told, wait.abandoned) == (1, ["beats", "quota"], 1)
            client.connection.close()
            assert (client.closed, told) == (1, ["beats", "quota"])
            wait.answer()  # no client hears it

    asyncio.run(scenario())


def test_a_handler_that_waits_is_cancelled_with_its_connection() -> None:
    async def scenario() -> None:
        script = Script()
        with connected(script) as client:
            await client.send(metadata(1))
            client.connection.close()
            await client.turns()
            assert script.metadata[0].cancelled()

    asyncio.run(scenario())


def test_whoever_stops_a_broker_can_wait_for_owed_answers() -> None:
    async def scenario() -> None:
        script, wait = Script(), Later()
        script.reads = [wait]
        with connected(script) as client:
            await client.connection.settled()
            await client.send(produce(1))
            settled = asyncio.ensure_future(client.connection.settled())
            await client.turns()
            assert not settled.done()
            wait.answer()
            await asyncio.wait_for(settled, 1)

    asyncio.run(scenario())


def test_a_connection_has_one_gatherer_and_one_session_for_its_whole_life() -> None:
    async def scenario() -> None:
        sessions: list[Session] = []
        script = Script()

        def make(services: Services, session: Session) -> Reads:
            sessions.append(session)
            return Reads(script, session)

        api = ApiFamily()
        api.gathers(ProduceRequest)(make)
        quotas = Quotas(QuotaConfig(), monotonic_ms)
        services: Any = SimpleNamespace(quotas=quotas, requests=RequestCounts())
        script.gate = Gate(services, api.registered.get)
        script.gate.open()
        with connected(script) as client:
            await client.send(produce(1))
            await client.send(produce(2) + produce(3))
            assert sessions == [client.session]
            assert client.session.client_id == "shop"

    asyncio.run(scenario())
