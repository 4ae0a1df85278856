from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from ottla.localcluster.ports import free_ports
from ottla.localcluster.proxy import CLIENTS, ClusterProxy, Link, Links, cut_summary, isolating, speaker
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import RequestHeader, write_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest

HOST = "127.0.0.1"
SOON_S = 0.1  # nothing arrives over a cut link, however long one waits; this is how long these tests do
DEADLINE_S = 5.0


def greeting(client_id: str | None, version: int = 3) -> bytes:
    out = bytearray()
    header = RequestHeader(ApiKey.API_VERSIONS, version, 0, client_id)
    write_request(header, ApiVersionsRequest(), out)
    return bytes(out)


@pytest.mark.parametrize(
    ("client_id", "node"),
    [
        ("broker-2", 2),
        ("broker-0", 0),
        ("broker-1234", 1234),
        ("broker-", CLIENTS),
        ("broker-x", CLIENTS),
        ("my-broker-2", CLIENTS),
        ("rdkafka", CLIENTS),
        ("", CLIENTS),
        (None, CLIENTS),
    ],
)
@pytest.mark.parametrize("version", [0, 3])
def test_who_speaks_is_told_by_the_client_id_of_the_first_request(
    client_id: str | None, node: int, version: int
) -> None:
    assert speaker(greeting(client_id, version)) == node


def test_bytes_that_are_no_request_come_from_a_client() -> None:
    assert speaker(b"") == CLIENTS
    assert speaker(b"GET / HTTP/1.1\r\n\r\n") == CLIENTS


def test_a_node_is_isolated_in_both_directions_or_only_not_heard() -> None:
    assert isolating(1, [2, 3], one_way=True) == [Link(1, 2), Link(1, 3)]
    assert isolating(1, [2]) == [Link(1, 2), Link(2, 1)]


def test_what_is_broken_is_told_in_a_line_each() -> None:
    links = Links()
    links.cut([Link(1, 2), Link(2, 1), Link(3, 1), Link(CLIENTS, 1)])
    links.slow([Link(2, 3)], 0.05)
    assert cut_summary(links) == ["clients -/> 1", "1 -/- 2", "3 -/> 1", "2 -> 3 +50 ms"]
    links.heal(1)
    assert cut_summary(links) == ["2 -> 3 +50 ms"]
    links.heal()
    assert cut_summary(links) == []


@dataclass
class Echo:
    """A broker that sends back what it gets, and remembers it."""

    port: int
    received: bytearray
    connections: int = 0


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[Echo]:
    echo = Echo(0, bytearray())
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        echo.connections += 1
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                echo.received += data
                writer.write(data)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        echo.port = server.sockets[0].getsockname()[1]
        yield echo
    if serving:
        await asyncio.wait(serving, timeout=DEADLINE_S)


class Caller:
    """A connection to the proxy that introduced itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def says(self, words: bytes) -> None:
        self.writer.write(words)
        await self.writer.drain()

    async def hears(self, words: bytes) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.readexactly(len(words)) == words

    async def hears_nothing(self) -> bool:
        try:
            async with asyncio.timeout(SOON_S):
                await self.reader.readexactly(1)
                return False
        except TimeoutError:
            return True

    async def is_hung_up(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            with contextlib.suppress(OSError):
                return await self.reader.read(1) == b""
            return True


Scene = Callable[[ClusterProxy, Echo, Callable[[str], Awaitable[Caller]]], Awaitable[None]]


def played(scene: Scene) -> None:
    """Broker 2 behind a door of a proxy, and a way to call it under a name."""

    async def play() -> None:
        proxy = ClusterProxy(HOST)
        (port,) = free_ports(HOST, 1)
        callers: list[Caller] = []

        async def call(name: str) -> Caller:
            caller = Caller(*await asyncio.open_connection(HOST, port))
            callers.append(caller)
            await caller.says(greeting(name))
            return caller

        async with echoing() as echo:
            await proxy.open_door(2, port, echo.port)
            await scene(proxy, echo, call)
            await proxy.stop()
            for caller in callers:
                caller.writer.transport.abort()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play())


def test_what_is_said_arrives_and_the_answer_comes_back() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller = await call("broker-1")
        many = bytes(range(256)) * 20_000
        talking = asyncio.create_task(caller.says(many))
        assert await caller.hears(greeting("broker-1") + many)
        await talking
        caller.writer.write_eof()
        assert await caller.is_hung_up()

    played(scene)


def test_over_a_cut_link_nothing_passes_until_it_heals_and_then_everything() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller, client = await call("broker-1"), await call("someone")
        assert await caller.hears(greeting("broker-1"))
        proxy.links.cut([Link(1, 2)])
        await caller.says(b"held")
        assert await caller.hears_nothing()
        assert b"held" not in echo.received
        await client.says(b"free")
        assert await client.hears(greeting("someone") + b"free")
        proxy.links.heal()
        assert await caller.hears(b"held")

    played(scene)


def test_a_one_way_cut_lets_the_question_through_and_holds_the_answer() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller = await call("broker-1")
        assert await caller.hears(greeting("broker-1"))
        proxy.links.cut([Link(2, 1)])
        await caller.says(b"asked")
        assert await caller.hears_nothing()
        assert echo.received.endswith(b"asked")
        proxy.links.heal(2)
        assert await caller.hears(b"asked")

    played(scene)


def test_a_new_connection_over_a_cut_link_is_silent_too() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        proxy.links.cut([Link(1, 2)])
        caller = await call("broker-1")
        assert await caller.hears_nothing()
        assert echo.connections == 0
        proxy.links.heal()
        assert await caller.hears(greeting("broker-1"))

    played(scene)


def test_a_cut_hides_even_that_the_other_side_hung_up() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller = await call("broker-1")
        assert await caller.hears(greeting("broker-1"))
        proxy.links.cut([Link(2, 1)])
        caller.writer.write_eof()  # the echo hangs up when we do
        assert await caller.hears_nothing()
        proxy.links.heal()
        assert await caller.is_hung_up()

    played(scene)


def test_a_slow_link_delivers_late() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller = await call("broker-1")
        assert await caller.hears(greeting("broker-1"))
        proxy.links.slow([Link(1, 2)], SOON_S * 2)
        await caller.says(b"late")
        assert await caller.hears_nothing()
        assert await caller.hears(b"late")

    played(scene)


def test_a_reset_ends_the_connections_of_two_nodes_and_no_others() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller, client = await call("broker-1"), await call("someone")
        assert await caller.hears(greeting("broker-1"))
        assert await client.hears(greeting("someone"))
        assert proxy.reset(2, 1) == 1
        assert await caller.is_hung_up()
        await client.says(b"still here")
        assert await client.hears(b"still here")

    played(scene)


def test_a_shut_door_refuses_and_can_be_opened_again() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        caller = await call("broker-1")
        assert await caller.hears(greeting("broker-1"))
        port = caller.writer.get_extra_info("peername")[1]
        proxy.shut_door(2)
        with pytest.raises(ConnectionRefusedError):
            await call("broker-1")
        await caller.says(b"inside already")
        assert await caller.hears(b"inside already")
        await proxy.open_door(2, port, echo.port)
        assert await (await call("broker-3")).hears(greeting("broker-3"))

    played(scene)


def test_a_broker_that_does_not_listen_hangs_up_on_everybody() -> None:
    async def scene(proxy: ClusterProxy, echo: Echo, call: Callable[[str], Awaitable[Caller]]) -> None:
        port, nobody = free_ports(HOST, 2)
        await proxy.open_door(3, port, nobody)
        caller = Caller(*await asyncio.open_connection(HOST, port))
        await caller.says(greeting("broker-1"))
        assert await caller.is_hung_up()
        caller.writer.transport.abort()

    played(scene)
