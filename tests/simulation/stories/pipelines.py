"""A client without a library: several requests on one connection at once, whose answers must come in their order.

Requests repeat each other around new records, with acks=all and acks=1 by turns, on connections that outlive
leaderships and settings: what a broker remembers of earlier requests must not decide about later ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.simulation.stories.clients import Client
from tests.simulation.stories.ledger import Content, Promise
from tests.simulation.stories.settings import HOSTS_PORT, OPEN_PORT

from ottla.errors import ErrorCode
from ottla.model import ACKS_ALL, ACKS_LEADER
from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.batch import BatchView, iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record

if TYPE_CHECKING:
    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.world.node import Node
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

# The last versions that name topics instead of ids.
_PRODUCE_VERSION: Final = 12
_FETCH_VERSION: Final = 12
_METADATA_VERSION: Final = 12
_PATIENCE_S: Final = 2.5
_ACKS_TIMEOUT_MS: Final = 1_500


# A request, its version, and what to do with the answer.
PipelinedRequest = tuple[Any, int, Callable[[Any], None]]


class _Question(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    answered: Callable[[Any], None]


class PipelinedConnection(asyncio.BufferedProtocol):
    """One connection: questions in the order in which they were asked, and answers as they come."""

    def __init__(self, broken: Callable[[str], None]) -> None:
        self._broken = broken
        self._questions: deque[_Question] = deque()
        self._buffer = bytearray(1 << 16)
        self._received = bytearray()
        self._asked = 0
        self._done: asyncio.Event = asyncio.Event()
        self._transport: Any = None
        self.is_lost = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, burst: list[PipelinedRequest]) -> None:
        """Send several requests with one write."""
        out = bytearray()
        for request, version, answered in burst:
            self._asked += 1
            key = declaration_of(type(request)).key
            write_request(RequestHeader(key, version, self._asked, "pipeline"), request, out)
            self._questions.append(_Question(self._asked, key, version, answered))
        self._done.clear()
        self._transport.write(out)

    async def answered(self) -> None:
        """Wait until every request is answered, or the connection is lost."""
        await self._done.wait()

    def close(self) -> None:
        self._transport.close()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        received = self._received
        received += self._buffer[:nbytes]
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            self._take(frame)
        if not self._questions:
            self._done.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._done.set()

    def _take(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[:4], "big")
        if not self._questions or self._questions[0].correlation_id != correlation_id:
            waiting = [each.correlation_id for each in self._questions]
            self._broken(f"the answer to request {correlation_id} came, where {waiting} were waited for")
            return
        question = self._questions.popleft()
        question.answered(read_response(question.api_key, question.version, memoryview(frame))[1])


class Pipeline(Client):
    """Asks the leader of one partition after the other, several things at a time; it repeats nothing."""

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        partitions: Callable[[], list[Partition]],
        leader_of: Callable[[Partition], Node | None],
    ) -> None:
        self._partitions = partitions
        self._leader_of = leader_of
        self._number = 0
        self._is_refused = False
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        await asyncio.sleep(dice.uniform(0.05, 0.5))
        leader = self._leader_of(dice.choice(self._partitions()))
        if leader is None:
            return
        places = [place for place in self._partitions() if self._leader_of(place) is leader]
        port = (OPEN_PORT if self.access else HOSTS_PORT) + leader.number
        _, connection = await process.create_connection(
            lambda: PipelinedConnection(self.ledger.broken.append), "127.0.0.1", port
        )
        try:
            for _ in range(dice.randrange(2, 12)):
                if self.is_stopping or connection.is_lost:
                    return
                async with asyncio.timeout(_PATIENCE_S):
                    connection.ask(self._burst(places, life))
                    # More of them while the first ones are under way.
                    await asyncio.sleep(dice.random() * 0.01)
                    connection.ask(self._burst(places, life))
                    await connection.answered()
                if self._is_refused and dice.random() < 0.3:
                    return
                await asyncio.sleep(0.01 + dice.random() ** 2 * 0.9)
        finally:
            connection.close()

    def _burst(self, places: list[Partition], life: int) -> list[PipelinedRequest]:
        dice = self.world.dice
        kinds = dice.choices(("all", "one", "fetch", "metadata"), (6, 3, 1, 1), k=dice.randrange(1, 4))
        return [self._request(kind, dice.choice(places), life) for kind in kinds]

    def _request(self, kind: str, place: Partition, life: int) -> PipelinedRequest:
        if kind == "metadata":
            return MetadataRequest(topics=[]), _METADATA_VERSION, lambda _: None
        if kind == "fetch":
            return self._fetch(place), _FETCH_VERSION, lambda answer: self._fetched(place, answer)
        promise = Promise.ONCE if kind == "all" else Promise.NONE
        self._number += 1
        name, content = self.ledger.send(f"{self.name}#{life}", self._number, place, promise)
        data = PartitionProduceData(index=place[1], records=memoryview(build_batch([record_of(content)])))
        request = ProduceRequest(
            acks=ACKS_ALL if kind == "all" else ACKS_LEADER,
            timeout_ms=_ACKS_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=place[0], partition_data=[data])],
        )
        return request, _PRODUCE_VERSION, lambda answer: self._produced(name, answer)

    def _produced(self, name: str, response: ProduceResponse) -> None:
        (answer,) = response.responses[0].partition_responses
        self._is_refused = answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not answer.error_code:
            self.ledger.acknowledge(name, answer.base_offset)

    def _fetch(self, place: Partition) -> FetchRequest:
        """Some records, or a wait for the next one, behind which other answers have to wait."""
        offset = max(0, self.ledger.known_end[place] - self.world.dice.choice((0, 0, 1, 5, 50)))
        wanted = FetchPartition(partition=place[1], fetch_offset=offset, partition_max_bytes=2_000)
        topics = [FetchTopic(topic=place[0], partitions=[wanted])]
        return FetchRequest(max_wait_ms=self.world.dice.choice((0, 200)), min_bytes=1, topics=topics)

    def _fetched(self, place: Partition, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                for batch in takewhile(BatchView.crc_is_valid, iter_batches(data.records or b"")):
                    for record in batch.records():
                        headers = tuple((key, value or b"") for key, value in record.headers)
                        content = Content(record.key, record.value or b"", headers)
                        self.ledger.read(place, record.offset, content)


def record_of(content: Content) -> Record:
    """A content as a record of a batch of its own."""
    return Record(0, 1_000, content.key, content.value, content.headers)
