"""A broker inside the test's own process, on a loop and a thread of its own.

Clients reach it over TCP like any other; the test can also look into it (`call` runs a function on its loop)
and put a disk of its own under it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from ottla.config import BrokerConfig
from ottla.localcluster.ports import HOST
from ottla.log.log import Log
from ottla.runtime.disk import Disk
from ottla.runtime.runtime import Runtime
from ottla.server.broker import Broker
from ottla.server.partitions.hosted_partition import HostedPartition

STOP_DEADLINE_S = 20.0

T = TypeVar("T")


class BrokerThread:
    """Started by its constructor, stopped by `stop`; `stop` may be called twice."""

    def __init__(self, data: Path, settings: dict[str, str], disk: Disk | None = None) -> None:
        properties = {"listeners": f"PLAINTEXT://{HOST}:0", "log.dir": str(data), **settings}
        self._config = BrokerConfig.from_properties(properties)
        self._runtime = Runtime() if disk is None else Runtime(disk=disk)
        self._ready: Future[Broker] = Future()
        self._thread = threading.Thread(target=self._run, name="broker")
        self._thread.start()
        self.broker = self._ready.result(STOP_DEADLINE_S)
        self.port = self.broker.port

    def stop(self) -> None:
        """Stop it as SIGTERM would."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_DEADLINE_S)
            assert not self._thread.is_alive(), "the broker did not stop"

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the broker's loop and answer what it answers."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(STOP_DEADLINE_S)

    def partition(self, topic: str, index: int = 0) -> HostedPartition:
        found = self.broker.partitions.find(topic, index)
        assert found is not None
        return found

    def log(self, topic: str, index: int = 0) -> Log:
        return self.partition(topic, index).log

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            broker = Broker(self._config, self._runtime)
            await broker.start()
        except BaseException as failure:
            self._ready.set_exception(failure)
            return
        self._ready.set_result(broker)
        await self._stopping.wait()
        await broker.stop()


@contextlib.contextmanager
def broker_thread(
    data: Path, settings: dict[str, str] | None = None, disk: Disk | None = None
) -> Iterator[BrokerThread]:
    """A broker for the length of a block."""
    broker = BrokerThread(data, settings or {}, disk)
    try:
        yield broker
    finally:
        broker.stop()
