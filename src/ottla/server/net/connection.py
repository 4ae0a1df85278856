"""One client connection: frames in, responses out, in request order.

Rules:
- The connection owns its socket. It reads when the loop says so, handles every whole frame it has, and sends
  the answers of one read with one call.
- The requests of one read that have a gatherer (gate/handlers.py: Produce) are carried out together: one
  append per partition instead of one per request.
- On a listener with logins, the gate sees every frame of a client that has to log in, one after the other. All
  other connections pay one comparison per read for that.
- While the gate is shut (gate/dispatch.py), the requests of clients stay in the buffer.
- A request that has to wait mutes the connection: later frames stay in the buffer until it is answered. Only
  gathered requests may overtake each other's waiting (one fsync then serves many), and their answers still
  leave in order.
- A client that has exceeded a quota (gate/quotas.py) gets its answer at once, and its next requests stay in
  the buffer for a while.
- For a client that does not take its answers no further answers are made, and its requests are not read
  without end.
- Whatever is wrong with the bytes closes this connection with a logged reason, and touches nothing else.
  Requests that came before are answered first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple

from ottla.config import ConnectionConfig
from ottla.errors import KafkaError
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import DecodeError
from ottla.runtime.network import Network, Socket
from ottla.runtime.ordered_set import OrderedSet
from ottla.server.answers.deferred import Deferred, Outcome
from ottla.server.answers.send_queue import Part, SendQueue, part_bytes
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.handlers import Answer, Gatherer, UnanswerableError
from ottla.server.gate.login import Login, LoginRefusedError
from ottla.server.gate.request_counts import ApiCounts
from ottla.server.gate.session import Session
from ottla.server.net.receive_buffer import BUSY_BYTES, ReceiveBuffer

logger = logging.getLogger(__name__)

# Frame size, api key, api version, correlation id.
_HEAD = Struct(">ihhi")
_HEAD_BYTES = 12
# Gathered requests that may wait for an fsync or for followers at once, counted in reads; clients keep five
# requests in flight, tools that pipeline by hand keep hundreds.
_MAX_WAITING_TURNS = 1024
# Answers leave together until they are so large that a call of their own costs nothing; before more are made,
# the queue must have been asked whether there is room.
_TOGETHER_BYTES = 64 * 1024


class _Pending:
    """A place in the order of answers; `parts` is None until the answer is known."""

    __slots__ = ("asked", "deferred", "mutes", "parts")

    def __init__(
        self,
        parts: Sequence[Part] | None,
        mutes: bool,
        deferred: Deferred | None = None,
        asked: "_Asked | None" = None,
    ) -> None:
        self.parts = parts
        self.mutes = mutes
        self.deferred = deferred
        self.asked = asked


class _Asked(NamedTuple):
    """Requests that wait together, for the count of requests; times of the loop's clock."""

    times: ApiCounts
    requests: int
    read_at: float
    begun: float
    handled: float


class Connection:
    """One client's socket, by the rules above. `on_closed` is called exactly once, and then the session is
    closed.
    """

    def __init__(
        self,
        sock: Socket,
        session: Session,
        gate: Gate,
        network: Network,
        limits: ConnectionConfig,
        on_closed: Callable[["Connection"], None],
    ) -> None:
        self.session = session
        self._socket = sock
        self._descriptor = sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._gate = gate
        self._quotas = gate.quotas
        # By API key, None for APIs whose requests are answered one by one; filled with the first request of
        # each API.
        self._gatherers: dict[int, Gatherer | None] = {}
        # The API of the latest request, and its gatherer: the only one that may hold requests.
        self._latest_key: int | None = None
        self._gathering: Gatherer | None = None
        self._times = gate.times.of(ApiKey.API_VERSIONS)
        self._max_queued_bytes = limits.response_bytes
        self._on_closed = on_closed
        self._buffer = ReceiveBuffer(limits.request_max_bytes, network.least_room_bytes)
        self._queue = SendQueue(sock, network)
        self._pending: deque[_Pending] = deque()
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._is_release_due = False
        self._muted = False
        self._unsent_bytes = 0
        self._close_reason: str | None = None
        self._settling: asyncio.Future[None] | None = None
        self._reading = True
        self._writing = False
        self.is_closed = False
        self.closed_because: str | None = None
        self.received_bytes = 0
        self.last_active = self._read_at = self._begun = self._loop.time()
        self._login = session.login
        self._login_deadline = None if self._login is None else self._login_deadline_of(self._login)
        session.call_when_unmuted(self.resume)
        self._loop.add_reader(self._descriptor, self._on_readable)

    @property
    def sent_bytes(self) -> int:
        """The bytes that were sent so far."""
        return self._queue.sent_bytes

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still owed or still leaving."""
        return bool(self._pending) or self._queue.queued_bytes > 0

    @property
    def is_owed_an_answer(self) -> bool:
        """Whether a request waits for its answer here. A peer that does not take what it is sent waits for
        nothing.
        """
        return bool(self._pending)

    async def settled(self) -> None:
        """Return when no answer is owed any more, or the connection is gone."""
        if self.is_waiting and not self.is_closed:
            self._settling = self._loop.create_future()
            await self._settling

    def read(self) -> None:
        """Take what the socket has received already: a TLS handshake may have brought the first requests along."""
        self._on_readable()

    def resume(self) -> None:
        """Handle the requests that waited: for the gate to open, for an answer, or because a quota was exceeded."""
        if self._may_process():
            self._begun = self._loop.time()
            self._process()

    def close(self, reason: str | None = None) -> None:
        """Close at once. A reason is logged by `on_closed`: it is why the peer will find its connection gone."""
        if self.is_closed:
            return
        self.is_closed = True
        self.closed_because = reason
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        for task in self._tasks:
            # Not at once: a task that never began would leave coroutines that were never awaited.
            self._loop.call_soon(task.cancel)
        for pending in self._pending:
            if pending.deferred is not None:
                self._loop.call_soon(pending.deferred.abandon)
        self._pending.clear()
        if self._login_deadline is not None:
            self._login_deadline.cancel()
        # First, so that a peer that finds its connection closed finds the reason logged.
        self._on_closed(self)
        self._socket.close()
        self._tell_settled()
        self.session.close()

    def release_memory(self) -> None:
        """Give back a large buffer; called when the connection has been silent for a while."""
        self._buffer.shrink()

    def trim_memory(self) -> None:
        """Give back what a busy connection has not needed lately; called every few seconds."""
        self._buffer.trim()

    def _on_readable(self) -> None:
        if self._quotas.limits_time:
            self._timed(self._receive)
        else:
            self._receive()

    def _timed(self, work: Callable[[], None]) -> None:
        """Do work that counts for a quota of request time."""
        self._quotas.begin_work()
        work()
        self._quotas.end_work(self.session)

    def _receive(self) -> None:
        buffer = self._buffer
        try:
            size = self._socket.recv_into(buffer.writable())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close_on_error("reading", error)
            return
        if not size:
            self.close()
            return
        buffer.received(size)
        self.received_bytes += size
        self.last_active = self._read_at = self._begun = self._loop.time()
        if self._may_process():
            self._process()
        else:
            self._pace_reading()

    def _may_process(self) -> bool:
        return (
            not self._muted
            and self.session.throttled_until_ms is None
            and self._queue.queued_bytes <= self._max_queued_bytes
            and len(self._pending) < _MAX_WAITING_TURNS
            and self._close_reason is None
            and not self.is_closed
        )

    def _process(self) -> None:
        """Handle every whole frame there is, then send the answers."""
        answers: list[Part] = []
        try:
            try:
                if self._login is None or self._is_logged_in(self._login, answers):
                    self._handle_frames(answers)
            finally:
                self._finish_gathered(answers)
        except (DecodeError, KafkaError, UnanswerableError) as error:
            self._close_reason = f"unusable request: {error}"
        except Exception:
            logger.exception("a request from %s failed", self.session.peer)
            self._close_reason = "internal error, see above"
        self._send(answers)
        if self._close_reason is None:
            self._pace_reading()
        else:
            self._close_in_turn()

    def _close_in_turn(self) -> None:
        """Close for the reason there is, once everything that is owed has left."""
        if self._close_reason is not None and not self.is_waiting:
            self.close(self._close_reason)

    def _pace_reading(self) -> None:
        """Read on unless enough waits to be handled. A frame that is not whole yet is read on, however
        large.
        """
        buffer = self._buffer
        wanted = buffer.end - buffer.start < BUSY_BYTES or (
            self._may_process() and not buffer.has_whole_frame
        )
        if wanted == self._reading or self.is_closed:
            return
        self._reading = wanted
        if wanted:
            self._loop.add_reader(self._descriptor, self._on_readable)
        else:
            self._loop.remove_reader(self._descriptor)

    def _handle_frames(self, answers: list[Part]) -> None:
        buffer = self._buffer
        data, view, position, end = buffer.data, buffer.view, buffer.start, buffer.end
        max_frame_bytes = buffer.max_frame_bytes
        gate = self._gate
        is_shut = not gate.is_open
        latest_key, gatherer = self._latest_key, self._gathering
        # The loop that every small request pays for: locals only, one unpack, no objects.
        while end - position >= _HEAD_BYTES:
            size, api_key, api_version, correlation_id = _HEAD.unpack_from(data, position)
            frame_end = position + 4 + size
            if frame_end > end or size > max_frame_bytes or size < 8:
                break
            if is_shut and not gate.admits(api_key):
                break
            if api_key != latest_key:
                gatherer, latest_key = self._gatherer_of(api_key, answers), api_key
            if gatherer is not None:
                if self._muted:
                    break
                if not gatherer.repeats(data, view, position, frame_end, api_version, correlation_id):
                    gate.gather(gatherer, view[position + 4 : frame_end], self.session)
            else:
                if self._muted or self._pending or not self._may_process():
                    break
                self._handle(bytes(view[position + 4 : frame_end]), answers)
            position = buffer.start = frame_end
        buffer.check_frame_size()

    def _is_logged_in(self, login: Login, answers: list[Part]) -> bool:
        """Handle the frames of a client that has to log in; whether it need not, or not any more."""
        while self.session.must_log_in:
            if self._muted or self._pending:
                return False
            try:
                frame = self._buffer.take_frame(login.config.max_receive_size)
            except KafkaError as error:
                times = self._gate.times.of(ApiKey.SASL_AUTHENTICATE)
                self._answer(login.refuse(str(error)), answers, times, self._loop.time())
                return False
            if frame is None:
                return False
            times = self._gate.times.of_stranger(frame, is_raw=login.takes_raw_tokens)
            begun = self._loop.time()
            self._answer(self._gate.handle_stranger(frame, self.session), answers, times, begun)
        return True

    def _login_deadline_of(self, login: Login) -> asyncio.TimerHandle:
        def end() -> None:
            if not login.is_done:
                login.failed("the client did not finish its login in time")
                self.close()

        return self._loop.call_later(login.config.login_timeout_ms / 1000, end)

    def _gatherer_of(self, api_key: int, answers: list[Part]) -> Gatherer | None:
        """The gatherer of an API's requests, if it has one. Requests gathered of another API are carried out
        first.
        """
        self._finish_gathered(answers)
        try:
            gatherer = self._gatherers[api_key]
        except KeyError:
            gatherer = self._gatherers[api_key] = self._gate.gatherer_of(api_key, self.session)
        self._latest_key, self._gathering = api_key, gatherer
        self._times = self._gate.times.of(api_key)
        return gatherer

    def _finish_gathered(self, answers: list[Part]) -> None:
        gathering = self._gathering
        if gathering is None or not (requests := gathering.request_count):
            return
        try:
            outcome = gathering.finish()
        except UnanswerableError as failed:
            self._emit(failed.answers, answers)
            raise
        times, read_at, begun, now = self._times, self._read_at, self._begun, self._loop.time()
        if isinstance(outcome, list):
            self._emit(outcome, answers)
            times.answered(requests, read_at, begun, now, self.session)
        else:
            self._answer_later(outcome, False, _Asked(times, requests, read_at, begun, now))

    def _handle(self, frame: bytes, answers: list[Part]) -> None:
        begun = self._loop.time()
        self._answer(self._gate.handle(frame, self.session), answers, self._times, begun)

    def _answer(self, answer: Answer, answers: list[Part], times: ApiCounts, begun: float) -> None:
        read_at, now = self._read_at, self._loop.time()
        if isinstance(answer, list):
            times.answered(1, read_at, begun, now, self.session)
            self._emit(answer, answers)
            self._unsent_bytes += sum(map(part_bytes, answer))
            if self._unsent_bytes >= _TOGETHER_BYTES:
                self._send(answers)
        else:
            self._muted = True
            self._answer_later(answer, True, _Asked(times, 1, read_at, begun, now))

    def _emit(self, parts: list[Part], answers: list[Part]) -> None:
        if self._pending:
            self._pending.append(_Pending(parts, mutes=False))
        else:
            answers.extend(parts)

    def _answer_later(self, answer: Awaitable[list[Part]], mutes: bool, asked: _Asked) -> None:
        if isinstance(answer, Deferred):
            pending = _Pending(None, mutes, answer, asked)
            self._pending.append(pending)
            answer.then(partial(self._settled, pending))
            return
        pending = _Pending(None, mutes, None, asked)
        self._pending.append(pending)
        task = self._loop.create_task(self._complete(pending, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _complete(self, pending: _Pending, answer: Awaitable[list[Part]]) -> None:
        outcome: Outcome
        try:
            outcome = await answer
        except Exception as error:
            outcome = error
        self._settled(pending, outcome, at_once=True)

    def _settled(self, pending: _Pending, outcome: Outcome, at_once: bool) -> None:
        """An answer is known, or that there will be none."""
        pending.deferred = None
        if isinstance(outcome, list):
            pending.parts = outcome
        elif isinstance(outcome, UnanswerableError):
            pending.parts = outcome.answers
            self._close_reason = f"unusable request: {outcome}"
        elif isinstance(outcome, LoginRefusedError):
            pending.parts, pending.mutes = outcome.answers, False
            self._loop.call_later(outcome.linger_s, self.close)
        elif isinstance(outcome, DecodeError | KafkaError):
            self.close(f"unusable request: {outcome}")
        else:
            logger.error("a request from %s failed", self.session.peer, exc_info=outcome)
            self.close("internal error, see above")
        if at_once:
            self._release_answers()
        elif not self._is_release_due:
            self._is_release_due = True
            self._loop.call_soon(self._release_deferred)

    def _release_deferred(self) -> None:
        if self._quotas.limits_time:
            self._timed(self._release_answers)
        else:
            self._release_answers()

    def _release_answers(self) -> None:
        """Send the known answers at the head of the order, and continue with the requests that waited for
        them.
        """
        self._is_release_due = False
        if self.is_closed:
            return
        answers: list[Part] = []
        while self._pending and self._pending[0].parts is not None:
            pending = self._pending.popleft()
            answers.extend(pending.parts or ())
            if pending.asked is not None:
                pending.asked.times.waited(*pending.asked[1:], self._loop.time(), self.session)
            if pending.mutes:
                self._muted = False
        self._send(answers)
        self._tell_settled()
        self._close_in_turn()
        self.resume()

    def _send(self, parts: list[Part]) -> None:
        """Send what the kernel takes, queue the rest, empty the list."""
        self._unsent_bytes = 0
        if not parts:
            return
        try:
            if not self._queue.send(parts) and not self._writing:
                self._writing = True
                self._loop.add_writer(self._descriptor, self._on_writable)
        except OSError as error:
            self._close_on_error("sending", error)
        parts.clear()

    def _on_writable(self) -> None:
        if self._quotas.limits_time:
            self._timed(self._send_on)
        else:
            self._send_on()

    def _send_on(self) -> None:
        try:
            drained = self._queue.pump()
        except OSError as error:
            self._close_on_error("sending", error)
            return
        self.last_active = self._loop.time()
        if drained:
            self._writing = False
            self._loop.remove_writer(self._descriptor)
            self._tell_settled()
            self._close_in_turn()
        self.resume()

    def _tell_settled(self) -> None:
        settling = self._settling
        if settling is not None and not settling.done() and (self.is_closed or not self.is_waiting):
            settling.set_result(None)

    def _close_on_error(self, what: str, error: OSError) -> None:
        # A peer that goes away in the middle is everyday life, not news. A segment that ends too early is.
        gone = isinstance(error, ConnectionResetError | BrokenPipeError)
        self.close(None if gone else f"{what} failed: {error.strerror or error}")
