"""A network with links that can be cut or slowed: connections to a broker pass a port ("door") of this proxy.

The sender is known by the client id of a connection's first request: brokers call themselves `broker-<id>`,
every other name is a client's. Where TLS hides requests, a door is told how its senders are known. Each direction between two nodes is a link of its own, so that a cut can be
one-way.

Rules
- A cut link delivers nothing, not even the close of a connection. Bytes that were sent are held, and arrive
  when the link heals, as TCP would retransmit them; late requests are part of the faults that a cut causes.
- A slow link delivers each chunk after the delay. (Packet loss is, above TCP, delay.)
- `reset` ends the connections of two nodes at once, as a restarted router would.
- A door is shut while its broker has no process, so that a connection to a dead broker is refused as without
  a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

CLIENTS: Final = -1  # every sender that is not a broker
_CHUNK_BYTES: Final = 256 << 10
_PREFIX: Final = b"broker-"
# Size, API key, version and correlation id come before the length of the client id.
_BEFORE_CLIENT_ID: Final = 12
_LONGEST_CLIENT_ID: Final = 1 << 10


# The node, or CLIENTS, at the other end of an accepted connection.
SenderOf = Callable[[asyncio.StreamWriter], Awaitable[int]]


class Link(NamedTuple):
    """One direction between two nodes."""

    source: int
    target: int


class Links:
    """Which links are cut, and which are slow."""

    def __init__(self) -> None:
        self._cut: set[Link] = set()
        self._delays_s: dict[Link, float] = {}
        self._healed: asyncio.Event = asyncio.Event()

    @property
    def cut_links(self) -> list[Link]:
        return sorted(self._cut)

    @property
    def slow_links(self) -> dict[Link, float]:
        """The seconds that each slow link takes."""
        return dict(sorted(self._delays_s.items()))

    def cut(self, links: Iterable[Link]) -> None:
        self._cut.update(links)

    def slow(self, links: Iterable[Link], seconds: float) -> None:
        self._delays_s.update(dict.fromkeys(links, seconds))

    def heal(self, node_id: int | None = None) -> None:
        """Heal all links, or those of one node."""
        if node_id is None:
            self._cut.clear()
            self._delays_s.clear()
        else:
            self._cut = {link for link in self._cut if node_id not in link}
            self._delays_s = {link: s for link, s in self._delays_s.items() if node_id not in link}
        self._healed.set()
        self._healed = asyncio.Event()

    async def pass_through(self, link: Link) -> None:
        """Return when a chunk on this link may be delivered."""
        while link in self._cut:
            await self._healed.wait()
        if delay_s := self._delays_s.get(link):
            await asyncio.sleep(delay_s)
            if link in self._cut:
                await self.pass_through(link)


class ClusterProxy:
    """The doors of all brokers, and the links between them."""

    def __init__(self, host: str) -> None:
        self.links = Links()
        self._host = host
        self._doors: dict[tuple[int, int], asyncio.Server] = {}
        self._passages: dict[asyncio.Task[None], Link] = {}

    async def open_door(
        self, node_id: int, port: int, broker_port: int, sender_of: SenderOf | None = None
    ) -> None:
        """Accept connections for a broker that listens, or soon will, on `broker_port`. A sender is known by its
        first request, or by its address.
        """
        if (node_id, port) not in self._doors:

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._carry(node_id, broker_port, reader, writer, sender_of)

            server = await asyncio.start_server(accept, self._host, port, limit=_CHUNK_BYTES)
            self._doors[node_id, port] = server

    def shut_door(self, node_id: int) -> None:
        """Refuse new connections to a broker; existing ones continue."""
        for key in [key for key in self._doors if key[0] == node_id]:
            self._doors.pop(key).close()

    def reset(self, one: int, other: int) -> int:
        """End all connections between two nodes; returns how many there were."""
        ended = [task for task, link in self._passages.items() if set(link) == {one, other}]
        for task in ended:
            task.cancel()
        return len(ended)

    async def stop(self) -> None:
        for node_id, _ in list(self._doors):
            self.shut_door(node_id)
        passages = list(self._passages)
        for task in passages:
            task.cancel()
        await asyncio.gather(*passages, return_exceptions=True)

    async def _carry(
        self,
        target: int,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sender_of: SenderOf | None,
    ) -> None:
        """Relay one connection from its first byte to its last."""
        task = asyncio.current_task()
        assert task is not None
        self._passages[task] = Link(CLIENTS, target)
        try:
            first = b"" if sender_of else await _first_bytes(reader)
            source = await sender_of(writer) if sender_of else speaker(first)
            link = self._passages[task] = Link(source, target)
            await self.links.pass_through(link)
            await self._join(link, port, first, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one side closed, or `reset`, or `stop`: the other side is closed below
        finally:
            del self._passages[task]
            writer.transport.abort()

    async def _join(
        self,
        link: Link,
        port: int,
        first: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        behind, before = await asyncio.open_connection(self._host, port, limit=_CHUNK_BYTES)
        try:
            before.write(first)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(link, reader, before))
                both.create_task(self._pump(Link(link.target, link.source), behind, writer))
        except* OSError:
            pass
        finally:
            before.transport.abort()

    async def _pump(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one direction. A reset ends the other direction too, once the link delivers it."""
        try:
            while data := await reader.read(_CHUNK_BYTES):
                await self.links.pass_through(link)
                writer.write(data)
                await writer.drain()
        except OSError:
            await self.links.pass_through(link)
            raise
        await self.links.pass_through(link)
        with contextlib.suppress(OSError):
            writer.write_eof()


def speaker(first: bytes) -> int:
    """The broker that sent a request beginning with these bytes, or CLIENTS."""
    length = int.from_bytes(first[_BEFORE_CLIENT_ID : _BEFORE_CLIENT_ID + 2], "big", signed=True)
    name = first[_BEFORE_CLIENT_ID + 2 : _BEFORE_CLIENT_ID + 2 + max(length, 0)]
    digits = name.removeprefix(_PREFIX)
    return int(digits) if name.startswith(_PREFIX) and digits.isdigit() else CLIENTS


async def _first_bytes(reader: asyncio.StreamReader) -> bytes:
    """The bytes up to the end of the first request's client id, or fewer if the connection closes before."""
    try:
        first = await reader.readexactly(_BEFORE_CLIENT_ID + 2)
        length = int.from_bytes(first[_BEFORE_CLIENT_ID:], "big", signed=True)
        if 0 < length <= _LONGEST_CLIENT_ID:
            first += await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        return error.partial
    return first


def isolating(node_id: int, others: Iterable[int], *, one_way: bool = False) -> list[Link]:
    """The links to cut so that a node is isolated from others; one-way, it still receives."""
    out = [Link(node_id, other) for other in others]
    return out if one_way else out + [Link(other, node_id) for other in others]


def cut_summary(links: Links) -> list[str]:
    """The cut and slow links as lines for people."""
    between: dict[frozenset[int], set[Link]] = defaultdict(set)
    for link in links.cut_links:
        between[frozenset(link)].add(link)
    lines = []
    for cut in between.values():
        source, target = min(cut)
        arrow = "-/-" if len(cut) == 2 else "-/>"
        lines.append(f"{_name(source)} {arrow} {_name(target)}")
    slow = [f"{_name(s)} -> {_name(t)} +{d * 1000:.0f} ms" for (s, t), d in links.slow_links.items()]
    return lines + slow


def _name(node_id: int) -> str:
    return "clients" if node_id == CLIENTS else str(node_id)
