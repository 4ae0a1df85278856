"""Who may see which page (OPS-2)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.config.monitoring import HttpAddress
from ottla.runtime.http_server import HttpRequest
from ottla.runtime.runtime import Runtime
from ottla.server.gate.request_counts import RequestCounts
from ottla.server.monitoring.monitor import Monitor

PAGES = ("state", "tasks", "slow", "profile?seconds=1", "profile", "anything")


def status(peer: str, path: str) -> int:
    """The status of a page for a peer, of a node that has nothing but its port."""

    async def ask() -> int:
        subject: Any = SimpleNamespace(
            config=BrokerConfig(),
            runtime=Runtime(),
            node_id=1,
            services=SimpleNamespace(requests=RequestCounts()),
        )
        monitor = Monitor(subject, HttpAddress("127.0.0.1", 0))
        monitor.start()
        try:
            request = HttpRequest(path, {"seconds": "0.1"}, "", peer)
            return (await asyncio.to_thread(monitor.answer, request)).status
        finally:
            await monitor.stop()

    return asyncio.run(ask())


@pytest.mark.parametrize("page", PAGES)
def test_pages_for_debugging_are_for_this_machine_alone(page: str) -> None:
    assert status("192.0.2.7", f"/debug/{page.partition('?')[0]}") == 403


def test_the_machine_itself_may_see_them() -> None:
    assert status("127.0.0.1", "/debug/tasks") == 200
    assert status("::1", "/debug/profile") == 200
    assert status("192.0.2.7", "/nothing") == 404
