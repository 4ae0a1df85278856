"""Frames out, frames back: the asyncio half of a connection, which does not look inside frames.

A request frame gets a correlation id; the response frame with the same id resolves the caller's future.
Writing waits while the kernel accepts no more bytes, so that a peer that does not read cannot make us buffer
without limit. A caller that finds the stream free takes no lock, and no request has a timer of its own:
brokers ask each other thousands of times a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct

from ottla.wire.deadlines import Deadlines
from ottla.wire.failures import ConnectionLostError as ConnectionLostError
from ottla.wire.frame_reader import FrameReader, FrameSizeError
from ottla.wire.socket_errors import reason

_CORRELATION_ID = Struct(">i")
_MAX_CORRELATION_ID = 2**31 - 1


class Stream(asyncio.BufferedProtocol):
    """The protocol object that asyncio calls; a `Connection` owns it and is its only user.

    `on_lost` is called once when the connection ends otherwise than by `close`.
    """

    def __init__(self, peer: str, max_frame_bytes: int, on_lost: Callable[[], None] | None = None) -> None:
        self._peer = peer
        self._on_lost = on_lost
        self._reader = FrameReader(max_frame_bytes)
        self._waiters: dict[int, asyncio.Future[memoryview]] = {}
        self._next_correlation_id = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._writable: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()  # whose turn it is to write; it is fair
        self._queued = 0  # callers that wait to write, or write
        self._deadlines = Deadlines[int](self._loop, self._expired)
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._why: ConnectionLostError | None = None

    @property
    def is_open(self) -> bool:
        return self._why is None and self._transport is not None and not self._transport.is_closing()

    def reuse_memory(self) -> None:
        """Receive large frames into the same memory: each is read before the next one is requested."""
        self._reader.reuse_memory()

    async def exchange(self, write: Callable[[int, bytearray], None], timeout_s: float) -> memoryview:
        """Send the frame that `write(correlation_id, out)` appends to `out`, and return the response frame.

        Raises TimeoutError; a response that comes later is dropped.
        """
        deadline = self._loop.time() + timeout_s
        if self._queued or self._writable is not None:
            async with asyncio.timeout_at(deadline):
                correlation_id = await self.send(write)
        else:
            correlation_id = self._write(write)
        # Nothing was awaited since the frame went out: its answer cannot be here yet.
        waiter: asyncio.Future[memoryview] = self._loop.create_future()
        self._waiters[correlation_id] = waiter
        self._deadlines.add(correlation_id, deadline)
        return await waiter

    async def send(self, write: Callable[[int, bytearray], None]) -> int:
        """Send a frame without waiting for a response, and return its correlation id.

        Frames go out in the order of the calls.
        """
        self._queued += 1
        try:
            async with self._turn:
                while self._writable is not None:
                    await asyncio.shield(self._writable)
                return self._write(write)
        finally:
            self._queued -= 1

    def _write(self, write: Callable[[int, bytearray], None]) -> int:
        if self._transport is None or not self.is_open:
            raise ConnectionLostError(str(self._why or f"the connection to {self._peer} is closed"))
        correlation_id = self._next_correlation_id
        out = bytearray()
        write(correlation_id, out)
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        self._transport.write(out)
        return correlation_id

    def abort(self, why: ConnectionLostError) -> None:
        """End the connection now. Every waiting caller gets `why`."""
        self._end(why)
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close, and wait until the socket is gone."""
        self._on_lost = None
        self._end(ConnectionLostError(f"the connection to {self._peer} was closed here"))
        if self._transport is not None:
            # A caller that closes wants no response, so unsent bytes do not matter. abort() cannot hang.
            self._transport.abort()
            await asyncio.shield(self._gone)

    # ---- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.received(nbytes):
                self._deliver(frame)
        except FrameSizeError as error:
            self.abort(ConnectionLostError(f"{self._peer} does not speak Kafka's protocol: {error}"))

    def eof_received(self) -> None:
        self._end(ConnectionLostError(f"{self._peer} closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        why = f"the connection to {self._peer} was lost"
        self._end(ConnectionLostError(f"{why}: {reason(exc)}" if exc else why))
        self._gone.set_result(None)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def _deliver(self, frame: memoryview) -> None:
        correlation_id = _CORRELATION_ID.unpack_from(frame)[0]
        waiter = self._waiters.pop(correlation_id, None)
        self._deadlines.discard(correlation_id)
        if waiter is None:
            self.abort(
                ConnectionLostError(f"{self._peer} answered request {correlation_id}, which was never asked")
            )
        elif not waiter.done():
            waiter.set_result(frame)

    def _expired(self, correlation_id: int) -> None:
        waiter = self._waiters.get(correlation_id)
        if waiter is not None and not waiter.done():
            waiter.set_exception(TimeoutError())

    def _end(self, why: ConnectionLostError) -> None:
        """Record the first reason, and wake every caller that waits for a response or to write."""
        if self._why is None:
            self._why = why
        self._deadlines.close()
        self.resume_writing()
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            if not waiter.done():
                # One exception each: they are raised in different tasks, and each collects its own traceback.
                waiter.set_exception(ConnectionLostError(str(self._why)))
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost()
