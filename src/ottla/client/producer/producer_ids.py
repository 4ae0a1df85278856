"""The producer id of an idempotent producer, asked for when the accumulator lacks one.

A transactional producer has its producer id from its coordinator instead (see `transactions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.conversation import Ask, asked
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.transaction_requests import LAST_ONE_PHASE
from ottla.client.producer.produce_requests import granted_identity, identity_request
from ottla.errors import KafkaError


class ProducerIds:
    """Asks any broker; `pump` is called when there is an answer."""

    def __init__(
        self,
        accumulator: Accumulator,
        connections: Connections,
        background: Background,
        pump: Callable[[], None],
        *,
        timeout_ms: int,
    ) -> None:
        self._accumulator = accumulator
        self._connections = connections
        self._background = background
        self._pump = pump
        self._timeout_ms = timeout_ms
        self._is_asking = False

    def supply(self) -> None:
        """Ask for a producer id if one is needed."""
        if self._accumulator.lacks_identity and not self._is_asking:
            self._is_asking = True
            self._background.start(self._ask())

    async def _ask(self) -> None:
        """Ask until a broker grants an identity.

        An error that does not pass is raised, and ends the producer.
        """
        try:
            for wait_ms in waits_ms():
                try:
                    question = Ask(None, identity_request(), self._timeout_ms, at_most=LAST_ONE_PHASE)
                    response = await self._connections.converse(asked(question))
                    self._accumulator.adopt_identity(granted_identity(response))
                    return
                except (ConnectionError, TimeoutError):
                    pass
                except KafkaError as error:
                    if not error.code.retriable:
                        raise
                    self._connections.known.ask_another()
                await asyncio.sleep(wait_ms / 1000)
        finally:
            self._is_asking = False
            asyncio.get_running_loop().call_soon(self._pump)
