"""Hands out producer ids from blocks that the controller made durable, so that no id is ever given twice."""

import asyncio

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.server.quorum.quorum import Quorum


class ProducerIds:
    """The rest of the current block; asks for the next one when it is used up."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._next = 0
        self._end = 0
        self._asking = asyncio.Lock()

    async def next_id(self) -> int:
        """A producer id that no other producer has."""
        async with self._asking:
            if self._next >= self._end:
                await self._ask()
            self._next += 1
            return self._next - 1

    async def _ask(self) -> None:
        quorum = self._quorum
        request = AllocateProducerIdsRequest(broker_id=quorum.node_id, broker_epoch=quorum.broker_epoch)
        try:
            response = await quorum.submit(request)
        except KafkaError as error:
            if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                raise _later(error.message) from error
            raise
        if response.error_code:
            raise _later(ErrorCode(response.error_code).name)
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len


def _later(why: str) -> KafkaError:
    """An error that every client retries soon, as from Kafka; clients do not know the controller's errors."""
    return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
