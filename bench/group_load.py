"""Members of consumer groups by the thousand, in one process: they join, sync and heartbeat, and do nothing
else.

Joining members have a connection each, because a broker holds a connection up while its request waits for
others. Heartbeats come from prebuilt frames over a few hundred connections, evenly spread over the interval:
each is a wake-up, a read and a send of its own for the broker, as with ten thousand clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.localcluster.ports import HOST
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import RequestHeader, write_request
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ottla.wire.connection import Connection

SESSION_MS = 45_000
REBALANCE_MS = 60_000
HEARTBEAT_INTERVAL_S = 3.0
HEARTBEAT_VERSION = 4
_MEMBER_ID_REQUIRED = 79
_REBALANCE_IN_PROGRESS = 27
# What a subscription to one topic takes on the wire, more or less; the broker does not look into it.
_SUBSCRIPTION = bytes.fromhex("0001000000010007") + b"measure" + bytes.fromhex("ffffffff00000000")
_ASSIGNMENT = bytes(40)
_ANSWER = struct.Struct(">iixihx")  # size, correlation id, tags, throttle time, error code, tags


@dataclass(slots=True)
class Member:
    """One member and the connection that it joins over."""

    group_id: str
    connection: Connection
    member_id: str = ""
    generation: int = -1
    leader: str = ""

    @property
    def leads(self) -> bool:
        return self.member_id == self.leader

    async def join(self) -> JoinGroupResponse:
        """Join, in two steps if need be."""
        answer = await self.ask_to_join()
        if answer.error_code == _MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = await self.ask_to_join()
        if answer.error_code:
            raise AssertionError(f"JoinGroup answered {answer.error_code}")
        self.generation, self.leader = answer.generation_id, answer.leader
        return answer

    async def ask_to_join(self) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", _SUBSCRIPTION)],
        )
        answer: JoinGroupResponse = await self.connection.ask(request, timeout_ms=2 * REBALANCE_MS)
        return answer

    async def sync(self, joined: JoinGroupResponse) -> None:
        """Take the assignment; the leader gives everybody the same."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(one.member_id, _ASSIGNMENT) for one in joined.members],
        )
        answer = await self.connection.ask(request, timeout_ms=2 * REBALANCE_MS)
        if answer.error_code or bytes(answer.assignment) != _ASSIGNMENT:
            raise AssertionError(f"SyncGroup answered {answer.error_code}")

    async def is_to_rejoin(self) -> bool:
        """Heartbeat once."""
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id)
        error: int = (await self.connection.ask(request)).error_code
        return error == _REBALANCE_IN_PROGRESS

    async def become_stable(self) -> None:
        await self.sync(await self.join())


@contextlib.asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[list[Connection]]:
    """So many connections, closed at the end."""
    opened = [await Connection.open(HOST, port, client_id=f"bench-{number}") for number in range(count)]
    try:
        yield opened
    finally:
        await asyncio.gather(*[connection.close() for connection in opened])


async def form_groups(port: int, groups: int, members: int, at_once: int) -> list[Member]:
    """Stable groups of so many members each; as many groups at once as there are connections for."""
    formed: list[Member] = []
    async with connections(port, at_once * members) as opened:
        for first in range(0, groups, at_once):
            names = [f"bench-group-{number}" for number in range(first, min(groups, first + at_once))]
            seats = [name for name in names for _ in range(members)]
            wave = [Member(name, seat) for name, seat in zip(seats, opened, strict=False)]
            await asyncio.gather(*[member.become_stable() for member in wave])
            formed += wave
    return formed


@dataclass(slots=True)
class Heartbeats:
    """What came of a while of heartbeats."""

    sent: int = 0
    errors: int = 0
    latencies_us: list[float] = field(default_factory=list)

    def percentile_us(self, share: float) -> float:
        return sorted(self.latencies_us)[int(len(self.latencies_us) * share)]


class Heart:
    """Beats for all members, each once per interval."""

    def __init__(self, port: int, members: Sequence[Member], connection_count: int) -> None:
        self._sockets = [socket.create_connection((HOST, port)) for _ in range(connection_count)]
        self._selector = selectors.DefaultSelector()
        for connection in self._sockets:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, bytearray())
        self._beats = [
            (self._sockets[number % connection_count], _heartbeat(member, number))
            for number, member in enumerate(members)
        ]
        self._sent_at = [0.0] * len(self._beats)

    def close(self) -> None:
        self._selector.close()
        for connection in self._sockets:
            connection.close()

    def beat(self, seconds: float) -> Heartbeats:
        """Beat evenly, and take the answers, for a while."""
        outcome, clock = Heartbeats(), time.perf_counter
        gap_s, started = HEARTBEAT_INTERVAL_S / len(self._beats), clock()
        while (elapsed := clock() - started) < seconds:
            due = int(elapsed / gap_s)
            while outcome.sent < due:
                number = outcome.sent % len(self._beats)
                connection, frame = self._beats[number]
                self._sent_at[number] = clock()
                connection.send(frame)
                outcome.sent += 1
            self._take_answers(outcome, max(0.0, started + (outcome.sent + 1) * gap_s - clock()))
        while len(outcome.latencies_us) < outcome.sent:
            self._take_answers(outcome, 1.0)
        return outcome

    def _take_answers(self, outcome: Heartbeats, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            connection, kept = key.fileobj, key.data
            assert isinstance(connection, socket.socket)
            part = connection.recv(1 << 16)
            if not part:
                raise ConnectionError("the broker closed the connection")
            now = time.perf_counter()
            kept += part
            whole = len(kept) // _ANSWER.size * _ANSWER.size
            for _, number, _, error in _ANSWER.iter_unpack(bytes(kept[:whole])):
                outcome.errors += error != 0
                outcome.latencies_us.append((now - self._sent_at[number]) * 1e6)
            del kept[:whole]


def _heartbeat(member: Member, correlation_id: int) -> bytes:
    request = HeartbeatRequest(member.group_id, member.generation, member.member_id)
    header = RequestHeader(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, correlation_id, "bench")
    return frame(header, request)


def frame(header: RequestHeader, request: object) -> bytes:
    out = bytearray()
    write_request(header, request, out)
    return bytes(out)


async def rebalance(members: Sequence[Member]) -> float:
    """Have all members of a group join again; seconds from the last join's departure to the last sync's
    answer.
    """
    (leader,) = [member for member in members if member.leads]
    *others, last = [member for member in members if not member.leads]
    tasks = [asyncio.create_task(leader.become_stable())]
    while not await last.is_to_rejoin():
        pass
    tasks += [asyncio.create_task(member.become_stable()) for member in others]
    await asyncio.sleep(0.5)  # all of them wait for the last one
    if any(task.done() for task in tasks):
        raise AssertionError("the rebalance did not wait for everybody")
    started = time.perf_counter()
    await asyncio.gather(last.become_stable(), *tasks)
    return time.perf_counter() - started


def pipelined(port: int, frames: Iterable[bytes], in_flight: int, answer_bytes: int) -> None:
    """Send frames over one connection, so many unanswered at most; answers are counted by their size."""
    with socket.create_connection((HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        owed_bytes = 0
        for one in frames:
            while owed_bytes >= in_flight * answer_bytes:
                owed_bytes -= _received(connection)
            connection.sendall(one)
            owed_bytes += answer_bytes
        while owed_bytes:
            owed_bytes -= _received(connection)


def _received(connection: socket.socket) -> int:
    part = connection.recv(1 << 16)
    if not part:
        raise ConnectionError("the broker closed the connection")
    return len(part)
