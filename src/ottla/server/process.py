"""A process that is a broker: runs until it is told to stop by a signal, or cannot go on."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.config import BrokerConfig
from ottla.runtime.runtime import Runtime
from ottla.server.broker import Broker

logger = logging.getLogger(__name__)


class HaltedError(RuntimeError):
    """The node could not go on; the message says why."""


BeforeStop = Callable[[], Awaitable[None]]


def run(
    config: BrokerConfig, on_ready: Callable[[Broker], None], before_stop: BeforeStop | None = None
) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises what `Broker.start` raises, and HaltedError.

    `before_stop` is awaited by a broker that was ready before it stops.
    """
    if config.logs.memory_bytes is None:
        asyncio.run(_run(config, Runtime(), on_ready, before_stop))
        return
    from ottla.server.memory import data_in_memory

    with data_in_memory(config) as (adapted, runtime):
        asyncio.run(_run(adapted, runtime, on_ready, before_stop))


async def _run(
    config: BrokerConfig, runtime: Runtime, on_ready: Callable[[Broker], None], before_stop: BeforeStop | None
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = Broker(config, runtime)
    starting, stopped = loop.create_task(broker.start()), loop.create_task(stopping.wait())
    ends: set[asyncio.Future[Any]] = {stopped, broker.halted}
    await asyncio.wait({starting, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It stops itself when its start is broken off.
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    else:
        starting.result()
        on_ready(broker)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        logger.info("stopping")
        if before_stop is not None:
            await before_stop()
        await broker.stop()
    if broker.halted.done():
        raise HaltedError(broker.halted.result())
    stopped.cancel()
