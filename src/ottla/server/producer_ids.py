"""Hands out producer ids from blocks that the controller made durable, so that no id is ever given twice."""

import asyncio

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.server.quorum import Quorum


class ProducerIds:
    """The rest of the current block; asks for the next one when it is used up."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._next = 0
        self._end = 0
        self._asking = asyncio.Lock()

    async def next_id(self) -> int:
        """A producer id that nobody has."""
        async with self._asking:
            if self._next >= self._end:
                await self._ask()
            self._next += 1
            return self._next - 1

    async def _ask(self) -> None:
        quorum = self._quorum
        request = AllocateProducerIdsRequest(broker_id=quorum.node_id, broker_epoch=quorum.broker_epoch)
        response = await self._quorum.submit(request)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len
