"""The HTTP port of a node: which paths there are, and who may see them.

A request comes in on a thread (`runtime/http_server.py`). Its page is made on the event loop, a millisecond at a
time; the thread waits for it and sends the bytes. Pages of `/debug` are for this machine alone: they show addresses
and client ids, and a profile costs time.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.config import HTTP_LISTENER, ConfigError
from ottla.config.monitoring import HttpAddress
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.http_server import HttpAnswer, HttpRequest, HttpServer
from ottla.runtime.profiler import sample
from ottla.runtime.threads import Lock
from ottla.runtime.turns import encoded_in_turns
from ottla.server.monitoring import debug_pages, health
from ottla.server.monitoring.health import Health
from ottla.server.monitoring.loop_delay import LoopDelay
from ottla.server.monitoring.metrics import Metrics
from ottla.server.monitoring.subject import Subject
from ottla.telemetry.openmetrics import OPENMETRICS_TYPE, PROMETHEUS_TYPE, accepts_openmetrics

logger = logging.getLogger(__name__)

_JSON: Final = "application/json; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
# A loop that does not answer within this time is stuck; the page of a large node takes longer than its health.
_HEALTH_S: Final = 3.0
_PAGE_S: Final = 20.0
_MOST_PROFILE_S: Final = 60.0
# Slow requests are shown for this long.
_SLOW_S: Final = 600.0
_FORGET_S: Final = 30.0
_DEBUG: Final = "/debug/"

Page = Callable[[HttpRequest], Coroutine[Any, Any, HttpAnswer]]


class Monitor:
    """Serves the pages of one node from `start` to `stop`."""

    def __init__(self, subject: Subject, address: HttpAddress) -> None:
        self._subject = subject
        self._loop = asyncio.get_running_loop()
        self._delay = LoopDelay()
        self._metrics = Metrics(subject, self._delay)
        self._profiling = Lock()
        self._forgetting: asyncio.TimerHandle | None = None
        self._pages: dict[str, Page] = {
            "/metrics": self._metrics_page,
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/health/cluster": self._cluster,
            "/debug/state": self._state,
            "/debug/tasks": self._tasks,
            "/debug/slow": self._slow,
            "/debug/clients": self._clients,
        }
        self._server = self._bound(address)

    @property
    def port(self) -> int:
        """The port; the kernel's choice where the setting says 0."""
        return self._server.port

    def _bound(self, address: HttpAddress) -> HttpServer:
        try:
            return HttpServer(self._subject.runtime.network, address.host, address.port, self.answer)
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            raise ConfigError(
                f"{HTTP_LISTENER} cannot be {address.host}:{address.port}: {reason}. Choose another with --http."
            ) from problem

    def start(self) -> None:
        """Serve from now on."""
        self._delay.start()
        self._forget()
        self._server.start()

    async def stop(self) -> None:
        """Close the port and all its connections."""
        self._delay.stop()
        if self._forgetting is not None:
            self._forgetting.cancel()
        await self._loop.run_in_executor(None, self._server.stop)

    # In a thread

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """The page for a request; called in a thread of the HTTP server."""
        path = request.path.rstrip("/")
        if path.startswith(_DEBUG) and not request.is_local:
            return _text(403, "Pages below /debug are for clients on the broker's own machine.")
        if path == "/debug/profile":
            return self._profile(request)
        page = self._pages.get(path)
        if page is None:
            known = "\n".join([*self._pages, "/debug/profile?seconds=5"])
            return _text(404, f"There is no such page. The pages are:\n{known}")
        patience_s = _HEALTH_S if path.startswith("/health") else _PAGE_S
        return self._on_loop(page(request), patience_s)

    def _on_loop(self, page: Coroutine[Any, Any, HttpAnswer], patience_s: float) -> HttpAnswer:
        try:
            asked = asyncio.run_coroutine_threadsafe(page, self._loop)
        except RuntimeError:
            page.close()
            return _json(503, {"status": "stopped", "reasons": ["The node has stopped."]})
        try:
            return asked.result(patience_s)
        except TimeoutError:
            asked.cancel()
            reason = f"The event loop did not answer within {patience_s:.0f} s."
            return _json(503, {"status": "stuck", "reasons": [reason], "node": self._subject.node_id})

    def _profile(self, request: HttpRequest) -> HttpAnswer:
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = -1.0
        if not 0.1 <= seconds <= _MOST_PROFILE_S:
            return _text(400, f"seconds must be a number from 0.1 to {_MOST_PROFILE_S:.0f}.")
        if not self._profiling.acquire(blocking=False):
            return _text(503, "Another profile is being taken: try again when it is done.")
        try:
            return HttpAnswer(200, _TEXT, [line.encode() for line in sample(seconds)])
        finally:
            self._profiling.release()

    # On the loop

    async def _metrics_page(self, request: HttpRequest) -> HttpAnswer:
        openmetrics = accepts_openmetrics(request.accept)
        text = await self._metrics.text(openmetrics=openmetrics, refused_http=self._server.refused)
        return HttpAnswer(200, OPENMETRICS_TYPE if openmetrics else PROMETHEUS_TYPE, text)

    async def _live(self, request: HttpRequest) -> HttpAnswer:
        return self._health(health.live(self._subject))

    async def _ready(self, request: HttpRequest) -> HttpAnswer:
        return self._health(health.ready(self._subject))

    async def _cluster(self, request: HttpRequest) -> HttpAnswer:
        return self._health(health.cluster(self._subject, await self._metrics.survey()))

    def _health(self, found: Health) -> HttpAnswer:
        return _json(200 if found.is_well else 503, found.shown(self._subject))

    async def _state(self, request: HttpRequest) -> HttpAnswer:
        survey = await self._metrics.survey()
        return HttpAnswer(200, _JSON, await encoded_in_turns(debug_pages.state(self._subject, survey)))

    async def _tasks(self, request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, _JSON, await encoded_in_turns(debug_pages.tasks()))

    async def _slow(self, request: HttpRequest) -> HttpAnswer:
        pieces = debug_pages.slow(self._subject, self._loop.time())
        return HttpAnswer(200, _JSON, await encoded_in_turns(pieces))

    async def _clients(self, request: HttpRequest) -> HttpAnswer:
        pieces = debug_pages.clients(self._subject, monotonic_ms())
        return HttpAnswer(200, _JSON, await encoded_in_turns(pieces))

    def _forget(self) -> None:
        self._subject.services.requests.forget_slow(self._loop.time() - _SLOW_S)
        self._forgetting = self._loop.call_later(_FORGET_S, self._forget)


def _text(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, _TEXT, [f"{text}\n".encode()])


def _json(status: int, content: dict[str, Any]) -> HttpAnswer:
    return HttpAnswer(status, _JSON, [(json.dumps(content) + "\n").encode()])
