"""The producer through a network that drops, delays, duplicates, cuts and lies, at every request (PRO-3,
PRO-4, CHK-7).

Each record carries its number, so that the log tells what was lost, written twice, or out of order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faulty_proxy import Fault, FaultyBroker, Kind, Request, faulty_broker
from tests.integration.awaiting import awaited
from tests.integration.peer import Peer, create_topic, read_all

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey

RECORDS = 240
PARTITIONS = 2
QUICK: dict[str, Any] = {
    "batch_size": 250,
    "linger_ms": 1,
    "request_timeout_ms": 400,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 40,
}
REFUSALS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
LIES = (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    with faulty_broker(tmp_path_factory.mktemp("faulty") / "data") as broker:
        yield broker


@pytest.fixture
def peer(faulty: FaultyBroker) -> Iterator[Peer]:
    """Past the proxy."""
    faulty.proxy.plan = lambda request: None
    with Peer(faulty.broker.port) as connected:
        yield connected


async def produce_all(
    faulty: FaultyBroker, topic: str, **settings: Any
) -> list[DeliveryReport | DeliveryError]:
    """Numbered records, in turns to the partitions; what came of each."""
    async with Producer(faulty.bootstrap, **QUICK | settings) as producer:
        deliveries = []
        for number in range(RECORDS):
            deliveries.append(producer.send_soon(topic, b"%d" % number, partition=number % PARTITIONS))
            if number % 7 == 0:
                await asyncio.sleep(0.001)
        return [await _outcome(delivery) for delivery in deliveries]


async def _outcome(delivery: Awaitable[DeliveryReport]) -> DeliveryReport | DeliveryError:
    try:
        return await delivery
    except DeliveryError as error:
        return error


def logs(peer: Peer, topic: str) -> list[list[int]]:
    return [[int(value or b"") for value in read_all(peer, topic, index)] for index in range(PARTITIONS)]


def sent_to(partition: int) -> list[int]:
    return list(range(partition, RECORDS, PARTITIONS))


def check_all_delivered(peer: Peer, topic: str, outcomes: list[DeliveryReport | DeliveryError]) -> None:
    """Everything once, in order, at the offsets that were reported."""
    found = logs(peer, topic)
    assert found == [sent_to(index) for index in range(PARTITIONS)]
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, DeliveryReport), outcome
        assert found[outcome.partition][outcome.offset] == number


def every(n: int, api_key: ApiKey, fault: Callable[[Request], Fault]) -> Callable[[Request], Fault | None]:
    """A fault at every n-th request of one kind."""
    return lambda request: fault(request) if request.api_key == api_key and request.number % n == 0 else None


@pytest.mark.parametrize(
    "fault",
    [
        Fault(Kind.LOSE_REQUEST),
        Fault(Kind.LOSE_ANSWER),
        Fault(Kind.CUT_REQUEST),
        Fault(Kind.CUT_ANSWER),
        Fault(Kind.DELAY, ms=20),
        Fault(Kind.DELAY_ANSWER, ms=20),
        Fault(Kind.DUPLICATE),
        Fault(Kind.HAUNT, ms=10),
        *(Fault(Kind.REFUSE, code=code) for code in REFUSALS),
        *(Fault(Kind.LIE, code=code) for code in LIES),
    ],
    ids=lambda fault: f"{fault.kind.name}{'-' + fault.code.name if fault.code else ''}",
)
def test_every_third_produce_request_goes_wrong(faulty: FaultyBroker, peer: Peer, fault: Fault) -> None:
    topic = f"third-{fault.kind.name}-{fault.code}"
    create_topic(peer, topic, PARTITIONS)
    faulty.proxy.plan = every(3, ApiKey.PRODUCE, lambda request: fault)

    async def body() -> None:
        outcomes = await produce_all(faulty, topic)
        check_all_delivered(peer, topic, outcomes)

    awaited(body)


def test_a_broker_that_stops_answering_loses_its_connection(faulty: FaultyBroker, peer: Peer) -> None:
    create_topic(peer, "stall", PARTITIONS)
    before = len(faulty.proxy.asked_for(ApiKey.PRODUCE))
    faulty.proxy.plan = lambda request: (
        Fault(Kind.STALL) if request.api_key == ApiKey.PRODUCE and request.number - before in (3, 9) else None
    )

    async def body() -> None:
        check_all_delivered(peer, "stall", await produce_all(faulty, "stall"))

    awaited(body)


@pytest.mark.parametrize(
    "api_key", [ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.API_VERSIONS], ids=lambda key: key.name
)
@pytest.mark.parametrize("kind", [Kind.LOSE_REQUEST, Kind.LOSE_ANSWER, Kind.CUT_ANSWER, Kind.DELAY_ANSWER])
def test_all_else_that_a_producer_asks_may_go_wrong_too(
    faulty: FaultyBroker, peer: Peer, api_key: ApiKey, kind: Kind
) -> None:
    topic = f"else-{api_key.name}-{kind.name}"
    create_topic(peer, topic, PARTITIONS)
    passed = len(faulty.proxy.asked_for(api_key))
    # The first ApiVersions is that of `async with`, which tells its user when it cannot connect.
    first = 2 if api_key == ApiKey.API_VERSIONS else 1
    faulty.proxy.plan = lambda request: (
        Fault(kind, ms=30)
        if request.api_key == api_key and first <= request.number - passed < first + 2
        else None
    )

    async def body() -> None:
        check_all_delivered(peer, topic, await produce_all(faulty, topic))

    awaited(body)


@pytest.mark.parametrize("seed", range(6))
def test_everything_goes_wrong_at_random(faulty: FaultyBroker, peer: Peer, seed: int) -> None:
    topic = f"random-{seed}"
    create_topic(peer, topic, PARTITIONS)
    dice = random.Random(seed)

    def plan(request: Request) -> Fault | None:
        if request.api_key == ApiKey.API_VERSIONS or dice.random() < 0.75:
            return None
        kinds = [
            Kind.LOSE_REQUEST,
            Kind.LOSE_ANSWER,
            Kind.CUT_REQUEST,
            Kind.CUT_ANSWER,
            Kind.DELAY,
            Kind.DELAY_ANSWER,
        ]
        if request.api_key == ApiKey.PRODUCE:
            kinds += [Kind.DUPLICATE, Kind.HAUNT, Kind.REFUSE, Kind.LIE]
        kind = dice.choice(kinds)
        return Fault(kind, ms=dice.randrange(30), code=dice.choice(LIES if kind is Kind.LIE else REFUSALS))

    faulty.proxy.plan = plan

    async def body() -> None:
        check_all_delivered(peer, topic, await produce_all(faulty, topic))

    awaited(body)


@pytest.mark.parametrize("kind", [Kind.LOSE_ANSWER, Kind.HAUNT, Kind.LIE], ids=lambda kind: kind.name)
def test_without_idempotence_nothing_is_lost_and_what_is_written_twice_is_in_order(
    faulty: FaultyBroker, peer: Peer, kind: Kind
) -> None:
    topic = f"at-least-once-{kind.name}"
    create_topic(peer, topic, PARTITIONS)
    fault = Fault(kind, ms=5, code=ErrorCode.REQUEST_TIMED_OUT)
    faulty.proxy.plan = every(4, ApiKey.PRODUCE, lambda request: fault)

    async def body() -> None:
        outcomes = await produce_all(faulty, topic, enable_idempotence=False, acks=1)
        assert all(isinstance(outcome, DeliveryReport) for outcome in outcomes)
        for index, log in enumerate(logs(peer, topic)):
            assert sorted(set(log)) == sent_to(index)
            if kind is not Kind.HAUNT:  # what comes back from the dead comes when it likes
                assert list(dict.fromkeys(log)) == sent_to(index)

    awaited(body)


def test_records_that_a_broker_never_takes_fail_in_time_and_say_what_is_known(
    faulty: FaultyBroker, peer: Peer
) -> None:
    create_topic(peer, "never", PARTITIONS)
    faulty.proxy.plan = every(1, ApiKey.PRODUCE, lambda request: Fault(Kind.LOSE_ANSWER))

    async def body() -> None:
        outcomes = await produce_all(faulty, "never", delivery_timeout_ms=500)
        for number, outcome in enumerate(outcomes):
            assert isinstance(outcome, DeliveryError)
            assert outcome.code == ErrorCode.REQUEST_TIMED_OUT
            assert outcome.record.value == b"%d" % number
        assert any(outcome.is_uncertain for outcome in outcomes if isinstance(outcome, DeliveryError))

    awaited(body)
    for index, log in enumerate(logs(peer, "never")):
        assert log == sorted(set(log)), "what was written is in order, and once"
        assert set(log) <= set(sent_to(index))


def test_a_refusal_for_good_fails_its_records_and_no_others(faulty: FaultyBroker, peer: Peer) -> None:
    create_topic(peer, "refused", PARTITIONS)
    fault = Fault(Kind.REFUSE, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    faulty.proxy.plan = every(5, ApiKey.PRODUCE, lambda request: fault)

    async def body() -> None:
        outcomes = await produce_all(faulty, "refused")
        failed = {number for number, outcome in enumerate(outcomes) if isinstance(outcome, DeliveryError)}
        assert failed
        found = logs(peer, "refused")
        assert found == [[n for n in sent_to(index) if n not in failed] for index in range(PARTITIONS)]

    awaited(body)


def test_a_producer_that_is_not_allowed_an_id_says_what_to_do(faulty: FaultyBroker, peer: Peer) -> None:
    create_topic(peer, "forbidden", PARTITIONS)
    fault = Fault(Kind.REFUSE, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    faulty.proxy.plan = every(1, ApiKey.INIT_PRODUCER_ID, lambda request: fault)

    async def body() -> None:
        async with Producer(faulty.bootstrap, **QUICK) as producer:
            for _ in range(2):
                with pytest.raises(DeliveryError, match="enable_idempotence=False") as caught:
                    await producer.send("forbidden", b"v")
                assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                assert caught.value.record.value == b"v"

    awaited(body)


def test_leaving_by_an_exception_does_not_wait_for_a_broker_that_is_silent(
    faulty: FaultyBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer.producer.CLOSE_TIMEOUT_MS", 100)
    create_topic(peer, "silent", PARTITIONS)
    faulty.proxy.plan = every(1, ApiKey.PRODUCE, lambda request: Fault(Kind.STALL))

    deliveries: list[Delivery] = []

    async def fail() -> None:
        async with Producer(faulty.bootstrap, linger_ms=0) as producer:
            deliveries.append(producer.send_soon("silent", b"v"))
            await asyncio.sleep(0.2)
            raise ZeroDivisionError

    async def body() -> None:
        with pytest.raises(ZeroDivisionError):
            await fail()
        with pytest.raises(DeliveryError, match="closed before the record was delivered") as caught:
            await deliveries[0]
        assert caught.value.is_uncertain

    awaited(body)


def test_a_broker_that_goes_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    with faulty_broker(tmp_path / "data") as faulty, Peer(faulty.broker.port) as peer:
        create_topic(peer, "t", PARTITIONS)

        async def refused() -> None:
            async with Producer(faulty.bootstrap, **QUICK):
                raise AssertionError("it connected to nobody")

        async def body() -> None:
            async with Producer(faulty.bootstrap, **QUICK) as producer:
                await producer.send("t", b"0", partition=0)
                faulty.proxy.target = 1  # where nobody listens
                faulty.proxy.plan = lambda request: Fault(Kind.LOSE_REQUEST)
                delivery = producer.send_soon("t", b"1", partition=0)
                await asyncio.sleep(0.3)
                assert not delivery.done()
                with pytest.raises(ConnectionError):
                    await refused()
                faulty.proxy.target, faulty.proxy.plan = faulty.broker.port, lambda request: None
                assert (await delivery).offset == 1

        awaited(body)
        assert read_all(peer, "t") == [b"0", b"1"]
