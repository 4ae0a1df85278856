"""Hands out producer ids from blocks that the controller made durable, so that no id is ever given twice."""

import asyncio

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.server.quorum import Quorum


class ProducerIds:
    """The rest of the current block; asks for the next one when it is used up."""

    def __init__(self, quorum: Quorum, node_id: int) -> None:
        self._quorum = quorum
        self._node_id = node_id
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
        epoch = self._quorum.image.brokers[self._node_id].epoch
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=epoch)
        response = await self._quorum.submit(request)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len
