"""The fast path decides as the slow path: two brokers get the same requests and the same changes, one of them
forgets all shapes.

That these comparisons find mistakes is tested with eight that are planted (`MISTAKES`): the API version is not
compared; the partition is not asked whether it may append; a transactional batch is taken; the append time
is left out; the log start is left out; acks=all is answered as acks=1; the requests of one read have one
place; shapes are kept when their basis changes.
"""

from __future__ import annotations

import asyncio
import inspect
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.server.apis.hosted_side import NODE, OTHER, Metadata, Side
from tests.unit.server.connected import frame

from ottla.model import NO_PRODUCER_ID
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record
from ottla.server.apis.produce import ProduceGatherer
from ottla.server.apis.produce_shape import ProduceShape
from ottla.server.gate.handlers import ApiFamily

VERSIONS = range(APIS[ApiKey.PRODUCE].min_version, APIS[ApiKey.PRODUCE].max_version + 1)
# Name and number of partitions; the last one belongs to the brokers.
TOPICS = {"orders": 2, "payments": 1, "__consumer_offsets": 1}
BOTH, ALONE = (NODE, OTHER), (NODE,)


class Forgetful(ProduceGatherer):
    """Never recognises a request."""

    def repeats(self, *_: Any) -> bool:
        return False


class Counting(ProduceGatherer):
    """Counts the requests that are recognised."""

    recognised = 0

    def repeats(self, *frame: Any) -> bool:
        is_repeated = super().repeats(*frame)
        Counting.recognised += is_repeated
        return is_repeated


def gathering(gatherer: type[ProduceGatherer]) -> Any:
    family = ApiFamily()
    family.gathers(ProduceRequest)(gatherer)
    return family.registered.get


@dataclass(frozen=True)
class Batch:
    """The records of one request for each of its partitions."""

    size: int = 10
    key: bytes | None = b"k"
    compression: Compression = Compression.NONE
    producer_id: int = NO_PRODUCER_ID
    sequence: int = 0
    is_transactional: bool = False
    damage: str = ""

    def bytes_(self) -> bytes | None:
        if self.damage in ("null", "empty"):
            return None if self.damage == "null" else b""
        producer: dict[str, Any] = {}
        if self.producer_id != NO_PRODUCER_ID or self.is_transactional:
            producer = {"producer_id": 4, "producer_epoch": 0, "base_sequence": self.sequence}
        raw = build_batch(
            [Record(0, 1_000, self.key, bytes(self.size))],
            compression=self.compression,
            is_transactional=self.is_transactional,
            **producer,
        )
        if self.damage == "checksum":
            raw[-1] ^= 1
        if self.damage == "cut":
            del raw[-3:]
        return bytes(raw)


NORMAL = Batch()


@dataclass(frozen=True)
class Style:
    """The fields that a client repeats from request to request."""

    version: int = 9
    client_id: str | None = "shop"
    acks: int = 1
    transactional_id: str | None = None
    targets: tuple[tuple[str, int], ...] = (("orders", 0),)


def produce_frame(style: Style, batch: Batch, correlation_id: int, topics: dict[str, Any]) -> bytes:
    records = batch.bytes_()
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for topic, index in style.targets:
        data = PartitionProduceData(index, None if records is None else memoryview(records))
        by_topic.setdefault(topic, []).append(data)
    request = ProduceRequest(
        transactional_id=style.transactional_id,
        acks=style.acks,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(name=name, topic_id=topics.get(name, ZERO_UUID), partition_data=data)
            for name, data in by_topic.items()
        ],
    )
    return frame(ApiKey.PRODUCE, style.version, request, correlation_id, style.client_id)


class Pair:
    """The same broker twice, once with the fast path and once without."""

    def __init__(self, path: Path) -> None:
        self.metadata = Metadata()
        self.fast, self.slow = (
            Side(path / name, gathering(gatherer))
            for name, gatherer in (("fast", Counting), ("slow", Forgetful))
        )
        self._correlation_id = 0

    async def create(self, name: str, replicas: tuple[int, ...]) -> None:
        self.metadata.create(name, TOPICS[name], replicas)
        await self.changed()

    async def changed(self) -> None:
        """Both hear of the metadata; what that answers is the same."""
        for side in (self.fast, self.slow):
            await side.apply(self.metadata.image)
        await self.compare()

    async def commit(self) -> None:
        self.fast.commit()
        self.slow.commit()
        await self.compare()

    async def delete_records(self) -> None:
        for side in (self.fast, self.slow):
            for partition in side.partitions:
                partition.advance_log_start_offset(partition.replica.high_watermark)
        await self.compare()

    async def cut_off(self, is_cut_off: bool) -> None:
        self.fast.cut_off(is_cut_off)
        self.slow.cut_off(is_cut_off)
        await self.compare()

    async def send(self, requests: list[tuple[Style, Batch]]) -> bytes:
        """One read of requests; the answers, which are the same on both sides."""
        topics = {name: topic.topic_id for name, topic in self.metadata.image.topics_by_name.items()}
        frames = b""
        for style, batch in requests:
            self._correlation_id += 1
            frames += produce_frame(style, batch, self._correlation_id, topics)
        for side in (self.fast, self.slow):
            side.now_ms += 1
        answers, expected = await self.fast.exchange(frames), await self.slow.exchange(frames)
        assert answers == expected
        await self.compare()
        return answers

    async def compare(self) -> None:
        assert await self.fast.answers() == await self.slow.answers()
        connections = self.fast.connection, self.slow.connection
        assert connections[0].is_closed == connections[1].is_closed
        assert connections[0].is_owed_an_answer == connections[1].is_owed_an_answer
        assert self.fast.logs() == self.slow.logs()
        if connections[0].is_closed:
            self.fast.connect()
            self.slow.connect()

    async def close(self) -> None:
        await self.fast.close()
        await self.slow.close()


Change = Callable[[Pair], Coroutine[Any, Any, object]]


async def run(story: list[Change]) -> None:
    with TemporaryDirectory() as directory:
        pair = Pair(Path(directory))
        try:
            for name in TOPICS:
                await pair.create(name, BOTH if name == "payments" else ALONE)
            for change in story:
                await change(pair)
            # Requests that still wait are answered: their partition is gone.
            for name in TOPICS:
                await delete(name)(pair)
        finally:
            await pair.close()


def sends(requests: list[tuple[Style, Batch]]) -> Change:
    return lambda pair: pair.send(requests)


def delete(name: str) -> Change:
    async def change(pair: Pair) -> None:
        pair.metadata.delete(name)
        await pair.changed()

    return change


def recreate(name: str, replicas: tuple[int, ...], in_one_step: bool) -> Change:
    async def change(pair: Pair) -> None:
        pair.metadata.delete(name)
        if not in_one_step:
            await pair.changed()
        await pair.create(name, replicas)

    return change


def place(target: tuple[str, int], changes: dict[str, Any]) -> Change:
    async def change(pair: Pair) -> None:
        pair.metadata.place(*target, **changes)
        await pair.changed()

    return change


def configure(name: str, given: dict[str, str]) -> Change:
    async def change(pair: Pair) -> None:
        pair.metadata.configure(name, given)
        await pair.changed()

    return change


PARTITIONS = [("orders", 0), ("orders", 1), ("payments", 0), ("__consumer_offsets", 0)]
TARGETS = st.one_of(
    st.sampled_from(PARTITIONS).map(lambda target: (target,)),
    st.lists(st.sampled_from([*PARTITIONS, ("orders", 7), ("nowhere", 0)]), min_size=1, max_size=4).map(
        tuple
    ),
)
# Styles with a shape, in which most producers write.
USUAL = st.builds(
    Style,
    version=st.sampled_from(range(7, VERSIONS.stop)),
    acks=st.sampled_from([-1, 1]),
    transactional_id=st.sampled_from([None, "mine"]),
    targets=st.sampled_from(PARTITIONS[:3]).map(lambda target: (target,)),
)
ANY = st.builds(
    Style,
    version=st.sampled_from(VERSIONS),
    client_id=st.sampled_from(["shop", "shop", "__admin_client", None]),
    acks=st.sampled_from([-1, -1, -1, 1, 1, 0, 2]),
    transactional_id=st.sampled_from([None, None, "mine"]),
    targets=TARGETS,
)
BATCHES = st.one_of(
    st.builds(Batch, size=st.sampled_from([0, 10, 200]), key=st.sampled_from([b"k", None])),
    st.builds(Batch, compression=st.sampled_from(Compression), size=st.just(100)),
    st.builds(Batch, producer_id=st.just(4), sequence=st.integers(0, 3)),
    st.builds(Batch, is_transactional=st.just(True), sequence=st.integers(0, 3)),
    st.builds(Batch, damage=st.sampled_from(["null", "empty", "checksum", "cut"])),
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "min.insync.replicas": st.sampled_from(["1", "2"]),
        "max.message.bytes": st.sampled_from(["100", "1000000"]),
        "compression.type": st.sampled_from(["producer", "gzip", "zstd", "uncompressed"]),
        "message.timestamp.type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "cleanup.policy": st.sampled_from(["delete", "compact"]),
    },
)
PLACES = st.sampled_from(
    [
        {"leader": NODE, "isr": ALONE, "replicas": BOTH},
        {"leader": NODE, "isr": BOTH, "replicas": BOTH},
        {"leader": OTHER, "isr": BOTH, "replicas": BOTH},
        {"leader": -1, "isr": ALONE, "replicas": BOTH},
        {"leader": OTHER, "isr": (OTHER,), "replicas": (OTHER,)},
        {"leader": NODE, "isr": ALONE, "replicas": ALONE},
    ]
)


def changes(target: tuple[str, int]) -> st.SearchStrategy[Change]:
    """Changes of one partition or its topic, and of what all partitions have in common."""
    name = st.just(target[0])
    return st.one_of(
        st.builds(delete, name),
        st.builds(recreate, name, st.sampled_from([ALONE, BOTH]), st.booleans()),
        st.builds(place, st.just(target), PLACES),
        st.builds(configure, name, SETTINGS),
        st.just(Pair.commit),
        st.just(Pair.delete_records),
        st.booleans().map(lambda is_cut_off: lambda pair: pair.cut_off(is_cut_off)),
    )


@st.composite
def stories(draw: st.DrawFn) -> list[Change]:
    """A client with few styles, so that it repeats itself, among changes that mostly concern it."""
    usual = draw(USUAL)
    in_another_version = replace(usual, version=draw(st.sampled_from(VERSIONS)))
    styles = [usual, in_another_version, *draw(st.lists(st.one_of(USUAL, ANY), max_size=2))]
    requests = st.tuples(st.sampled_from(styles), BATCHES)
    plain = st.tuples(st.sampled_from([usual, *styles]), st.just(Batch()))
    reads = st.lists(st.one_of(plain, plain, requests), min_size=1, max_size=4).map(sends)
    change = st.one_of(changes(usual.targets[0]), st.sampled_from(PARTITIONS).flatmap(changes))
    return [draw(reads), *draw(st.lists(st.one_of(reads, reads, change), min_size=1, max_size=14))]


@settings(deadline=None, max_examples=80)
@given(stories())
def test_a_recognised_request_is_decided_as_one_that_is_decoded(story: list[Change]) -> None:
    asyncio.run(run(story))


@pytest.mark.parametrize("version", range(7, VERSIONS.stop))
def test_a_repeated_request_is_recognised_until_its_topic_is_another(version: int) -> None:
    style, again = Style(version=version), [recreate("orders", ALONE, in_one_step=True)]
    reads = [sends([(style, Batch())]), sends([(style, Batch()), (style, Batch(size=99))])]
    before = Counting.recognised
    asyncio.run(run([*reads, *again, *reads]))
    assert Counting.recognised - before == 4


def test_requests_within_an_open_transaction_are_recognised() -> None:
    style = Style(transactional_id="mine")
    batches = [Batch(is_transactional=True, sequence=sequence) for sequence in range(6)]
    before = Counting.recognised
    one_by_one = [sends([(style, batch)]) for batch in batches[:4]]
    asyncio.run(run([*one_by_one, sends([(style, batch) for batch in batches[4:]])]))
    # The first one is verified; the second one is decoded, and its shape learnt within the transaction.
    assert Counting.recognised - before == 4


def test_a_refused_request_is_decoded_so_that_the_client_hears_why() -> None:
    style = Style(acks=-1, version=10, targets=(("payments", 0),))
    leaves = place(("payments", 0), {"leader": OTHER, "isr": BOTH, "replicas": BOTH})
    before = Counting.recognised
    asyncio.run(run([sends([(style, Batch())]), leaves, sends([(style, Batch())])]))
    assert Counting.recognised == before


# ---- planted mistakes


@dataclass(frozen=True)
class Mistake:
    """A mistake of the fast path: another line of a method, and a story that shows it.

    `recognised` is how many requests of the story the fast path recognises without the mistake.
    """

    method: Callable[..., Any]
    line: str
    instead: str
    story: list[Change]
    recognised: int


def twice(style: Style, *, between: list[Change] | None = None, batch: Batch = NORMAL) -> list[Change]:
    """The same request in two reads, with changes between them."""
    return [sends([(style, NORMAL)]), *(between or []), sends([(style, batch)])]


ORDERS, PAYMENTS = Style(), Style(acks=-1, targets=(("payments", 0),))
MISTAKES = {
    "the API version is not compared": Mistake(
        ProduceShape.match,
        "version != self.version\n",
        "False\n",
        [sends([(replace(ORDERS, version=7), NORMAL)]), sends([(replace(ORDERS, version=8), NORMAL)])],
        0,
    ),
    "the partition is not asked whether it may append": Mistake(
        ProduceShape.match,
        "or partition.append_error(self.acks)",
        "or False",
        twice(
            PAYMENTS,
            between=[place(("payments", 0), {"leader": OTHER, "isr": BOTH, "replicas": BOTH})],
        ),
        0,
    ),
    "a transactional batch is taken": Mistake(
        ProduceShape.match,
        "data[position + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL",
        "False",
        twice(replace(ORDERS, transactional_id="mine"), batch=Batch(is_transactional=True)),
        0,
    ),
    "the append time is left out": Mistake(
        ProduceShape.response,
        "appended.log_append_time_ms",
        "-1",
        twice(ORDERS, between=[configure("orders", {"message.timestamp.type": "LogAppendTime"})]),
        1,
    ),
    "the log start is left out": Mistake(
        ProduceShape.response,
        "appended.log_start_offset",
        "0",
        twice(ORDERS, between=[Pair.delete_records]),
        1,
    ),
    "acks=all is answered as acks=1": Mistake(
        ProduceGatherer.repeats, "self._acks = ACKS_ALL", "pass", twice(PAYMENTS, between=[Pair.commit]), 1
    ),
    "the requests of one read have one place": Mistake(
        ProduceGatherer.repeats,
        "(correlation_id, shape, len(staged))",
        "(correlation_id, shape, 0)",
        [sends([(ORDERS, NORMAL)]), sends([(ORDERS, NORMAL), (ORDERS, NORMAL)])],
        2,
    ),
    # The partitions of a changed basis refuse by themselves as long as the basis is which partitions there
    # are: only the count of recognised requests shows that shapes were kept.
    "shapes are kept when their basis changes": Mistake(
        ProduceGatherer._basis_changed,
        "if basis == self._basis:",
        "if True:",
        [*twice(ORDERS), delete("payments"), *twice(ORDERS)],
        2,
    ),
}


@contextmanager
def planted(mistake: Mistake) -> Iterator[None]:
    """The method with the mistake in it."""
    method = mistake.method
    source = textwrap.dedent(inspect.getsource(method))
    assert source.count(mistake.line) == 1, "the line is gone: plant the mistake elsewhere"
    found: dict[str, Any] = {}
    exec(source.replace(mistake.line, mistake.instead), method.__globals__, found)
    owner = method.__globals__[method.__qualname__.partition(".")[0]]
    setattr(owner, method.__name__, found[method.__name__])
    try:
        yield
    finally:
        setattr(owner, method.__name__, method)


def play(mistake: Mistake) -> None:
    before = Counting.recognised
    asyncio.run(run(mistake.story))
    assert Counting.recognised - before == mistake.recognised


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str) -> None:
    mistake = MISTAKES[name]
    play(mistake)
    with planted(mistake), pytest.raises(AssertionError):
        play(mistake)
