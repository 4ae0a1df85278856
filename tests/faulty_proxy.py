"""A network between a client and a broker, with faults for chosen requests.

A proxy stands before one broker, which must advertise the proxy's address as its own. It reads whole frames,
so a fault is about a request and not about bytes: `plan(request)` is asked for each, and answers what happens
to it (None: nothing).

    def plan(request: Request) -> Fault | None:
        return Fault.lose_answer() if request.api_key == ApiKey.PRODUCE and request.number % 5 == 0 else None

    with faulty_broker(tmp_path / "data", plan) as faulty:
        ...  # clients use faulty.bootstrap; faulty.proxy.requests are all that passed

Connections stay in order, as with TCP: a request that waits holds up all later ones. The proxy has a loop
and a thread of its own, so that clients of any kind can be tested; `plan` is called there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from tests.integration.in_process import BrokerThread, broker_thread

from ottla.errors import ErrorCode
from ottla.localcluster.ports import HOST
from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.protocol.codec import codec
from ottla.protocol.frame import RequestHeader, read_request_header, read_response, response_frame
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

_DEADLINE_SECONDS: Final = 20.0


class Kind(Enum):
    """The faults of a request."""

    LOSE_REQUEST = auto()  # it never arrives, and the connection ends
    LOSE_ANSWER = auto()  # it is carried out, and the connection ends before the answer
    CUT_REQUEST = auto()  # half of it arrives, and the connection ends
    CUT_ANSWER = auto()  # half of its answer arrives, and the connection ends
    DELAY = auto()  # it arrives later
    DELAY_ANSWER = auto()  # its answer arrives later
    STALL = auto()  # neither it nor anything behind it arrives, and nobody is told
    DUPLICATE = auto()  # it arrives twice; one answer comes back
    HAUNT = auto()  # the connection ends, and it arrives all the same, later
    REFUSE = auto()  # it is answered with an error, and not carried out
    LIE = auto()  # it is carried out, and answered with an error


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of one request."""

    kind: Kind
    ms: int = 0
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Request:
    """A request as `plan` sees it. `number` counts the requests of its API, from 1."""

    api_key: ApiKey
    number: int
    header: RequestHeader
    body: Any
    frame: bytes = field(repr=False)

    @property
    def has_answer(self) -> bool:
        return not (self.api_key == ApiKey.PRODUCE and self.body.acks == 0)


Plan = Callable[[Request], Fault | None]


class HangUp(Exception):  # noqa: N818
    """The connection ends here."""


class FaultyProxy:
    """Started by its constructor, stopped by `stop`. `target` is the port of the broker, set before clients
    come.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.target = 0
        self.requests: list[tuple[Request, Fault | None]] = []
        self._counts: dict[ApiKey, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy")
        self._thread.start()
        self.port = self._ready.result(_DEADLINE_SECONDS)

    def stop(self) -> None:
        """End all connections, and the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_DEADLINE_SECONDS)
            assert not self._thread.is_alive(), "the proxy did not stop"

    def asked_for(self, api_key: ApiKey) -> list[Request]:
        """The requests of one kind that passed so far."""
        return [request for request, _ in self.requests if request.api_key == api_key]

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self._ready.set_result(server.sockets[0].getsockname()[1])
        await self._stopping.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.spawn(_Passage(self, reader, writer).run())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def look(self, frame: bytes) -> tuple[Request, Fault | None]:
        """A frame's kind, and its fault."""
        header, position = read_request_header(memoryview(frame))
        key = ApiKey(header.api_key)
        body = codec(DECLARED_APIS[key].request, header.api_version).read(memoryview(frame), position)[0]
        self._counts[key] = self._counts.get(key, 0) + 1
        request = Request(key, self._counts[key], header, body, frame)
        fault = self.plan(request)
        self.requests.append((request, fault))
        return request, fault


class _Passage:
    """One client's connection, and the one to the broker that belongs to it."""

    def __init__(
        self, proxy: FaultyProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = reader, writer
        # What answers are owed, in order; an answer that is known already comes with its request.
        self._owed: asyncio.Queue[tuple[Request, Fault | None, bytes | None]] = asyncio.Queue()

    async def run(self) -> None:
        try:
            self._from_broker, self._to_broker = await asyncio.open_connection(HOST, self._proxy.target)
        except OSError:
            self._to_client.close()
            return
        ways = [self._proxy.spawn(self._requests()), self._proxy.spawn(self._answers())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._to_client.transport.abort()
            self._to_broker.close()

    async def _requests(self) -> None:
        with contextlib.suppress(HangUp, OSError, asyncio.IncompleteReadError):
            while True:
                request, fault = self._proxy.look(await _frame(self._from_client))
                await self._forward(request, fault)

    async def _forward(self, request: Request, fault: Fault | None) -> None:
        sized, kind = len(request.frame).to_bytes(4, "big") + request.frame, fault.kind if fault else None
        assert fault is not None or kind is None
        if kind is Kind.LOSE_REQUEST:
            raise HangUp
        if kind is Kind.CUT_REQUEST:
            self._to_broker.write(sized[: len(sized) // 2])
            raise HangUp
        if kind is Kind.HAUNT and fault is not None:
            self._proxy.spawn(self._haunt(sized, fault.ms))
            raise HangUp
        if kind is Kind.STALL:
            await asyncio.Event().wait()
        if kind is Kind.DELAY and fault is not None:
            await asyncio.sleep(fault.ms / 1000)
        if kind is Kind.REFUSE and fault is not None:
            self._owed.put_nowait((request, fault, refusal(request, fault.code)))
            return
        self._to_broker.write(sized * (2 if kind is Kind.DUPLICATE else 1))
        await self._to_broker.drain()
        if request.has_answer:
            self._owed.put_nowait((request, fault, None))

    async def _answers(self) -> None:
        with contextlib.suppress(HangUp, OSError, asyncio.IncompleteReadError):
            while True:
                request, fault, answer = await self._owed.get()
                if answer is None:
                    answer = await _frame(self._from_broker)
                    if fault is not None and fault.kind is Kind.DUPLICATE:
                        await _frame(self._from_broker)
                await self._give(request, fault, answer)

    async def _give(self, request: Request, fault: Fault | None, answer: bytes) -> None:
        kind = fault.kind if fault else None
        if kind is Kind.LOSE_ANSWER:
            raise HangUp
        if kind is Kind.CUT_ANSWER:
            self._to_client.write(len(answer).to_bytes(4, "big") + answer[: len(answer) // 2])
            await self._to_client.drain()
            await asyncio.sleep(0.01)  # so that it is on its way before the connection is torn down
            raise HangUp
        if kind is Kind.DELAY_ANSWER and fault is not None:
            await asyncio.sleep(fault.ms / 1000)
        if kind is Kind.LIE and fault is not None:
            answer = lie(request, answer, fault.code)
        self._to_client.write(len(answer).to_bytes(4, "big") + answer)
        await self._to_client.drain()

    async def _haunt(self, sized: bytes, ms: int) -> None:
        """The request of a connection that has ended arrives over one of its own."""
        await asyncio.sleep(ms / 1000)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(HOST, self._proxy.target)
            writer.write(sized)
            await _frame(reader)
            writer.close()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def refusal(request: Request, code: ErrorCode) -> bytes:
    """A broker's answer that everything in the request failed with this code."""
    body, response = request.body, DECLARED_APIS[request.api_key].response()
    if request.api_key == ApiKey.PRODUCE:
        response = ProduceResponse(responses=[_refused_topic(topic, code) for topic in body.topic_data])
    elif request.api_key == ApiKey.METADATA:
        topics = [MetadataResponseTopic(name=each.name, error_code=code) for each in body.topics or ()]
        response = MetadataResponse(topics=topics)
    else:
        response.error_code = code
    return _written(request, response)


def lie(request: Request, answer: bytes, code: ErrorCode) -> bytes:
    """The true answer, with this code wherever an error code stands."""
    _, response = read_response(request.api_key, request.header.api_version, memoryview(answer))
    _set_codes(response, code)
    return _written(request, response)


def _refused_topic(topic: Any, code: ErrorCode) -> TopicProduceResponse:
    refused = [
        PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
        for each in topic.partition_data
    ]
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=refused)


def _set_codes(message: Any, code: ErrorCode) -> None:
    for each in dataclasses.fields(message):
        value = getattr(message, each.name)
        if each.name == "error_code":
            setattr(message, each.name, int(code))
        elif each.name == "base_offset":
            setattr(message, each.name, -1)
        elif isinstance(value, list):
            for item in value:
                if dataclasses.is_dataclass(item):
                    _set_codes(item, code)


def _written(request: Request, response: Any) -> bytes:
    header = request.header
    return bytes(response_frame(header.correlation_id, header.api_key, header.api_version, response)[4:])


@dataclass(frozen=True, slots=True)
class FaultyBroker:
    """A broker behind a proxy; `bootstrap` is the only address that clients hear of."""

    proxy: FaultyProxy
    broker: BrokerThread

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.proxy.port}"


@contextlib.contextmanager
def faulty_broker(
    data: Path, plan: Plan = lambda request: None, settings: dict[str, str] | None = None
) -> Iterator[FaultyBroker]:
    """A broker and its proxy for the length of a block. `faulty.proxy.plan` may be changed meanwhile."""
    proxy = FaultyProxy(plan)
    try:
        advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"}
        with broker_thread(data, {**advertised, **(settings or {})}) as broker:
            proxy.target = broker.port
            yield FaultyBroker(proxy, broker)
    finally:
        proxy.stop()
