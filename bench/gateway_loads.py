"""What callers do to a gateway, for `bench.gateway`: requests over plain sockets, WebSockets, gRPC."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import grpc.aio

from ottla.gateway.grpc.messages import message

CONNECTIONS = 32
VALUE = "x" * 100
JSON_V2 = "application/vnd.kafka.json.v2+json"
_Record, _Request = message("Record"), message("ProduceRequest")


def produce_request(topic: str, count: int) -> bytes:
    """POST of `count` records of 100 bytes."""
    body = json.dumps({"records": [{"value": VALUE}] * count}).encode()
    head = f"POST /topics/{topic} HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON_V2}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get_request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


async def requests(port: int, request: bytes, seconds: float, connections: int = CONNECTIONS) -> int:
    """How many requests are answered within a time: one after the other on each connection."""
    until = time.perf_counter() + seconds
    counts = await asyncio.gather(*(_caller(port, request, until) for _ in range(connections)))
    return sum(counts)


async def _caller(port: int, request: bytes, until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 20"), head
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
        if size:
            await reader.readexactly(size)
        count += 1
    writer.close()
    return count


class Socket:
    """One WebSocket, with as little around it as can be: the gateway is measured, not its caller."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Socket:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        key = b64encode(b"0123456789abcdef").decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        return cls(reader, writer)

    def say(self, **said: Any) -> None:
        data = json.dumps(said).encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
        self._writer.write(b"\x81" + size + bytes(4) + data)

    async def hear(self) -> bytes:
        """The payload of the next text; pings are passed over."""
        while True:
            first, size = await self._reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", await self._reader.readexactly(2))
            payload = await self._reader.readexactly(size)
            if first & 0x0F == 1:
                return payload

    def close(self) -> None:
        self._writer.close()


async def pushes(port: int, topic: str, count: int) -> float:
    """Seconds until `count` records of a topic have been pushed to one WebSocket."""
    socket = await Socket.open(port)
    began = time.perf_counter()
    socket.say(type="subscribe", topics=[topic], offset_reset="earliest")
    left = count
    while left:
        left -= b'"type":"message"' in await socket.hear()
    socket.close()
    return time.perf_counter() - began


async def echoes(port: int, topic: str, count: int) -> list[float]:
    """Milliseconds from a produce message to the push of its record, over one WebSocket, one after the other."""
    socket = await Socket.open(port)
    socket.say(type="subscribe", topics=[topic], offset_reset="latest", id=0)
    while b'"subscribed"' not in await socket.hear():
        pass
    taken = []
    for number in range(count + 20):
        began = time.perf_counter()
        socket.say(type="produce", topic=topic, value=number)
        while b'"type":"message"' not in await socket.hear():
            pass
        taken.append((time.perf_counter() - began) * 1000)
    socket.close()
    return taken[20:]


async def sockets(port: int, count: int) -> list[Socket]:
    """Open WebSockets that say nothing."""
    opened: list[Socket] = []
    while len(opened) < count:
        opened += await asyncio.gather(*(Socket.open(port) for _ in range(min(200, count - len(opened)))))
    return opened


async def stream_in(port: int, topic: str, count: int, batch: int) -> float:
    """Seconds for `count` records through ProduceStream, `batch` in each request."""
    asked = _Request(topic=topic, records=[_Record(value=VALUE.encode())] * batch)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(
            "/ottla.v1.ProducerService/ProduceStream",
            request_serializer=lambda each: each,
            response_deserializer=message("ProduceResponse").FromString,
        )
        data = asked.SerializeToString()
        began = time.perf_counter()
        answered = 0
        async for answer in call(_repeated(data, count // batch)):
            answered += sum(not each.HasField("error") for each in answer.outcomes)
        assert answered == count // batch * batch
        return time.perf_counter() - began


def _repeated(data: bytes, times: int) -> Iterator[bytes]:
    for _ in range(times):
        yield data


async def stream_out(port: int, topic: str, count: int) -> float:
    """Seconds for `count` records through Consume."""
    wanted = message("SubscribeRequest")(topics=[topic], offset_reset=2)
    first = message("ConsumeRequest")(subscribe=wanted)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(
            "/ottla.v1.ConsumerService/Consume",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=message("ConsumeResponse").FromString,
        )()
        began = time.perf_counter()
        await call.write(first)
        left = count
        async for answer in call:
            left -= len(answer.messages.messages)
            if left <= 0:
                break
        taken = time.perf_counter() - began
        call.cancel()
        return taken


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which this part of all values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
