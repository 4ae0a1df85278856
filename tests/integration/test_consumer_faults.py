"""The consumer through a network that drops, delays, duplicates, cuts and lies, at every request (GRP-4 to
GRP-6, CHK-7).

Every record carries its number. Read alone, each comes once and in order, whatever happens. In a group
nothing is skipped, and what comes twice lies behind the last commit that went through.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from tests.faulty_proxy import Fault, FaultyBroker, Kind, Request, faulty_broker
from tests.integration.awaiting import awaited
from tests.integration.peer import Peer, batch, create_topic, produce

from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.consumer.processing import at_least_once, at_most_once
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey

PARTITIONS = 2
BATCHES, RECORDS = 20, 6  # of each partition, of each batch
NUMBERS = itertools.count()
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 400,
    "fetch_max_wait_ms": 20,
    "max_partition_fetch_bytes": 700,
    "metadata_max_age_ms": 500,
}
GROUP: dict[str, Any] = {
    "heartbeat_interval_ms": 20,
    "session_timeout_ms": 3_000,
    "auto_commit_interval_ms": 20,
    "max_poll_interval_ms": 20_000,
}

NETWORK = [
    Fault(Kind.LOSE_REQUEST),
    Fault(Kind.LOSE_ANSWER),
    Fault(Kind.CUT_REQUEST),
    Fault(Kind.CUT_ANSWER),
    Fault(Kind.DELAY_ANSWER, ms=20),
    Fault(Kind.DUPLICATE),
    Fault(Kind.HAUNT, ms=10),
]


def lies(*codes: ErrorCode) -> list[Fault]:
    return [Fault(Kind.LIE, code=code) for code in codes]


READING = {
    ApiKey.FETCH: lies(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ),
    ApiKey.LIST_OFFSETS: lies(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE),
    ApiKey.METADATA: lies(ErrorCode.LEADER_NOT_AVAILABLE),
}
GROUPING = {
    ApiKey.JOIN_GROUP: lies(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID),
    ApiKey.SYNC_GROUP: lies(ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
    ApiKey.HEARTBEAT: lies(ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION),
    ApiKey.OFFSET_COMMIT: lies(ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS),
    ApiKey.OFFSET_FETCH: lies(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ApiKey.FIND_COORDINATOR: lies(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ApiKey.LEAVE_GROUP: lies(ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    with faulty_broker(tmp_path_factory.mktemp("faulty") / "data", settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def peer(faulty: FaultyBroker) -> Iterator[Peer]:
    """Past the proxy."""
    faulty.proxy.plan = lambda request: None
    with Peer(faulty.broker.port) as connected:
        yield connected


@pytest.fixture
def topic(peer: Peer) -> str:
    """Numbered records in two partitions, in small batches."""
    name = f"read{next(NUMBERS)}"
    create_topic(peer, name, PARTITIONS)
    for partition, number in itertools.product(range(PARTITIONS), range(BATCHES)):
        values = [b"%d" % (number * RECORDS + n) for n in range(RECORDS)]
        assert produce(peer, name, batch(*values), partition=partition).error_code == 0
    return name


def every(n: int, api_key: ApiKey, fault: Fault) -> Callable[[Request], Fault | None]:
    return lambda request: fault if request.api_key == api_key and request.number % n == 0 else None


def at_random(seed: int, share: float, spared: frozenset[ApiKey]) -> Callable[[Request], Fault | None]:
    rnd = random.Random(seed)
    kinds = [*NETWORK, Fault(Kind.DELAY, ms=15)]

    def plan(request: Request) -> Fault | None:
        return rnd.choice(kinds) if request.api_key not in spared and rnd.random() < share else None

    return plan


def of_each_partition(seen: list[ConsumerRecord]) -> list[list[int]]:
    return [[int(each.value or b"") for each in seen if each.partition == p] for p in range(PARTITIONS)]


EVERYTHING = [list(range(BATCHES * RECORDS))] * PARTITIONS


def check_nothing_skipped(seen: list[ConsumerRecord]) -> None:
    """Each partition may go back, to what was committed, and never forward over something."""
    for numbers in of_each_partition(seen):
        assert set(numbers) == set(EVERYTHING[0])
        assert all(after <= before + 1 for before, after in itertools.pairwise([-1, *numbers]))


def named(value: object) -> str:
    if isinstance(value, Fault):
        return f"{value.kind.name}{'-' + value.code.name if value.code else ''}"
    return value.name if isinstance(value, ApiKey) else str(value)


# ---- alone


@asynccontextmanager
async def opened(faulty: FaultyBroker, **options: Any) -> AsyncIterator[Consumer]:
    """A consumer. On a busy machine even to connect may take longer than these short timeouts: then once
    more.
    """
    async with AsyncExitStack() as stack:
        consumer: Consumer | None = None
        while consumer is None:
            with suppress(ConnectionError):
                consumer = await stack.enter_async_context(Consumer(faulty.bootstrap, **QUICK | options))
        yield consumer


async def read_alone(faulty: FaultyBroker, topic: str, **options: Any) -> list[ConsumerRecord]:
    seen: list[ConsumerRecord] = []
    async with opened(faulty, **options) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        async for record in consumer:
            seen.append(record)
            if len(seen) == PARTITIONS * BATCHES * RECORDS:
                break
    return seen


@pytest.mark.parametrize(
    ("api_key", "fault"),
    [(key, fault) for key, special in READING.items() for fault in [*NETWORK, *special]],
    ids=named,
)
def test_a_third_of_the_requests_goes_wrong_and_each_record_comes_once_and_in_order(
    faulty: FaultyBroker, topic: str, api_key: ApiKey, fault: Fault
) -> None:
    faulty.proxy.plan = every(3, api_key, fault)

    async def body() -> None:
        assert of_each_partition(await read_alone(faulty, topic)) == EVERYTHING

    awaited(body)


@pytest.mark.parametrize("seed", range(3))
def test_a_quarter_of_all_requests_goes_wrong(faulty: FaultyBroker, topic: str, seed: int) -> None:
    faulty.proxy.plan = at_random(seed, 0.25, frozenset({ApiKey.API_VERSIONS}))

    async def body() -> None:
        assert of_each_partition(await read_alone(faulty, topic)) == EVERYTHING

    awaited(body)


def test_a_broker_that_stops_answering_is_asked_again(faulty: FaultyBroker, topic: str) -> None:
    faulty.proxy.plan = lambda request: (
        Fault(Kind.STALL) if request.api_key == ApiKey.FETCH and request.number % 5 == 4 else None
    )

    async def body() -> None:
        assert of_each_partition(await read_alone(faulty, topic, request_timeout_ms=100)) == EVERYTHING

    awaited(body)


# ---- in a group


async def read_in_group(faulty: FaultyBroker, topic: str, **options: Any) -> list[ConsumerRecord]:
    """One member after the other, each for a while, until everything was read."""
    seen: list[ConsumerRecord] = []
    wanted = {(p, n) for p in range(PARTITIONS) for n in EVERYTHING[0]}
    while wanted:
        async with opened(faulty, group_id=topic, **GROUP | options) as consumer:
            consumer.subscribe([topic])
            deadline = asyncio.get_running_loop().time() + 4.0
            while wanted and asyncio.get_running_loop().time() < deadline:
                for record in await consumer.poll(max_records=7, timeout_ms=50):
                    seen.append(record)
                    wanted.discard((record.partition, int(record.value or b"")))
                await asyncio.sleep(0.002)
    return seen


@pytest.mark.parametrize(
    ("api_key", "fault"),
    [(key, fault) for key, special in GROUPING.items() for fault in [*NETWORK[:4], *special]],
    ids=named,
)
def test_in_a_group_nothing_is_skipped(
    faulty: FaultyBroker, topic: str, api_key: ApiKey, fault: Fault
) -> None:
    faulty.proxy.plan = every(3, api_key, fault)

    async def body() -> None:
        check_nothing_skipped(await read_in_group(faulty, topic))

    awaited(body)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(2))
def test_in_a_group_a_tenth_of_all_requests_goes_wrong(
    faulty: FaultyBroker, topic: str, seed: int, assignor: str
) -> None:
    faulty.proxy.plan = at_random(seed, 0.1, frozenset({ApiKey.API_VERSIONS}))

    async def body() -> None:
        seen = await read_in_group(faulty, topic, partition_assignment_strategy=[assignor])
        check_nothing_skipped(seen)

    awaited(body)


async def processed(work: Awaitable[None], is_over: Callable[[], bool]) -> None:
    task = asyncio.ensure_future(work)
    while not is_over() and not task.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(outcome, asyncio.CancelledError), outcome


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_at_least_once_misses_nothing(faulty: FaultyBroker, topic: str, order: Any) -> None:
    faulty.proxy.plan = at_random(7, 0.1, frozenset({ApiKey.API_VERSIONS}))
    seen: set[tuple[int, int]] = set()

    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0.001)
        seen.add((record.partition, record.offset))

    async def body() -> None:
        # Until everything was processed, by one member after the other.
        while len(seen) < PARTITIONS * BATCHES * RECORDS:
            end = asyncio.get_running_loop().time() + 4.0
            async with opened(faulty, group_id=topic, **GROUP) as consumer:
                consumer.subscribe([topic])
                await processed(
                    at_least_once(consumer, handle, order=order, workers=4),
                    lambda end=end: (  # type: ignore[misc]
                        len(seen) == PARTITIONS * BATCHES * RECORDS or asyncio.get_running_loop().time() > end
                    ),
                )

    awaited(body)


def test_at_most_once_processes_nothing_twice(faulty: FaultyBroker, topic: str) -> None:
    faulty.proxy.plan = at_random(11, 0.1, frozenset({ApiKey.API_VERSIONS}))
    seen: list[tuple[int, int]] = []

    async def handle(record: ConsumerRecord) -> None:
        seen.append((record.partition, record.offset))

    async def body() -> None:
        for _ in range(4):
            end = asyncio.get_running_loop().time() + 0.7
            async with opened(faulty, group_id=topic, **GROUP) as consumer:
                consumer.subscribe([topic])
                await processed(
                    at_most_once(consumer, handle, workers=3),
                    lambda end=end: asyncio.get_running_loop().time() > end,  # type: ignore[misc]
                )
        assert len(seen) == len(set(seen)) > 0

    awaited(body)
