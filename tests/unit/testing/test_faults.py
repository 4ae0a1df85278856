"""The fault switches, as clients feel them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

import ottla
from ottla.testing import ApiKey, EmbeddedBroker, ErrorCode


def values(broker: EmbeddedBroker) -> list[bytes | None]:
    return [record.value for record in broker.records("orders")]


def produce(broker: EmbeddedBroker, *sent: str, **settings: int) -> None:
    async def main() -> None:
        async with ottla.Producer(broker.bootstrap, **settings) as producer:  # type: ignore[arg-type]
            for value in sent:
                await producer.send("orders", value)

    asyncio.run(main())


def test_an_error_that_passes_is_not_seen_by_the_application(ottla_broker: EmbeddedBroker) -> None:
    fault = ottla_broker.faults.fail("produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    produce(ottla_broker, "coffee", "tea")
    assert (fault.hits, fault.is_over) == (2, True)
    assert values(ottla_broker) == [b"coffee", b"tea"]


def test_an_error_that_does_not_pass_is_raised_with_its_code(ottla_broker: EmbeddedBroker) -> None:
    ottla_broker.faults.fail(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="not you")
    with pytest.raises(ottla.DeliveryError, match="not you") as raised:
        produce(ottla_broker, "coffee")
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert values(ottla_broker) == []


def test_a_lost_answer_makes_no_record_twice(ottla_broker: EmbeddedBroker) -> None:
    fault = ottla_broker.faults.lose_answer("produce")
    produce(ottla_broker, "coffee", "tea")
    assert fault.hits == 1
    assert values(ottla_broker) == [b"coffee", b"tea"]


def test_a_lost_request_is_sent_again(ottla_broker: EmbeddedBroker) -> None:
    fault = ottla_broker.faults.lose_request("produce", times=2)
    produce(ottla_broker, "coffee")
    assert fault.hits == 2
    assert values(ottla_broker) == [b"coffee"]


def test_a_delayed_request_takes_its_time(ottla_broker: EmbeddedBroker) -> None:
    ottla_broker.faults.delay("produce", ms=150)
    begun = time.perf_counter()
    produce(ottla_broker, "coffee")
    assert time.perf_counter() - begun >= 0.15


def test_a_fault_for_all_lasts_until_its_block_ends(ottla_broker: EmbeddedBroker) -> None:
    with (
        ottla_broker.faults.fail("produce", "not_leader_or_follower", times=None) as fault,
        pytest.raises(ottla.DeliveryError),
    ):
        produce(ottla_broker, "coffee", delivery_timeout_ms=300)
    assert fault.hits > 1
    assert fault.is_over
    produce(ottla_broker, "tea")
    assert values(ottla_broker) == [b"tea"]


async def first_records(bootstrap: str, **settings: int) -> list[ottla.ConsumerRecord]:
    async with ottla.Consumer(bootstrap, auto_offset_reset="earliest", **settings) as consumer:  # type: ignore[arg-type]
        consumer.assign([ottla.TopicPartition("orders", 0)])
        return await consumer.poll(timeout_ms=20_000)


def test_slow_reads_are_slow(ottla_broker: EmbeddedBroker) -> None:
    produce(ottla_broker, "x" * 20_000)
    with ottla_broker.faults.slow_reads(bytes_per_second=100_000) as fault:
        begun = time.perf_counter()
        assert asyncio.run(first_records(ottla_broker.bootstrap))
        assert time.perf_counter() - begun >= 0.2
        assert fault.hits >= 1


async def group_member(bootstrap: str) -> list[ottla.ConsumerRecord]:
    async with ottla.Consumer(bootstrap, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        records = await consumer.poll(timeout_ms=20_000)
        await consumer.commit()
        return records


@pytest.mark.parametrize(
    ("api", "code", "act"),
    [
        ("fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, first_records),
        ("list_offsets", ErrorCode.LEADER_NOT_AVAILABLE, first_records),
        ("metadata", ErrorCode.LEADER_NOT_AVAILABLE, first_records),
        ("find_coordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE, group_member),
        ("join_group", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, group_member),
        ("sync_group", ErrorCode.REBALANCE_IN_PROGRESS, group_member),
        ("offset_fetch", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, group_member),
        ("offset_commit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, group_member),
    ],
)
def test_a_consumer_gets_over_what_passes(
    ottla_broker: EmbeddedBroker,
    api: str,
    code: ErrorCode,
    act: Callable[[str], Awaitable[list[ottla.ConsumerRecord]]],
) -> None:
    async def main() -> list[ottla.ConsumerRecord]:
        return await act(ottla_broker.bootstrap)

    produce(ottla_broker, "coffee")
    fault = ottla_broker.faults.fail(api, code)
    assert [record.value for record in asyncio.run(main())] == [b"coffee"]
    assert fault.hits == 1


def test_looking_into_a_broker_is_spared(ottla_broker: EmbeddedBroker) -> None:
    produce(ottla_broker, "coffee")
    fault = ottla_broker.faults.fail("fetch", "UNKNOWN_SERVER_ERROR", times=None)
    assert values(ottla_broker) == [b"coffee"]
    assert fault.hits == 0


def test_the_fault_that_was_set_first_happens_first(ottla_broker: EmbeddedBroker) -> None:
    first = ottla_broker.faults.lose_request("produce")
    second = ottla_broker.faults.fail("produce", "NOT_LEADER_OR_FOLLOWER")
    assert ottla_broker.faults.pending == (first, second)
    produce(ottla_broker, "coffee")
    assert (first.hits, second.hits) == (1, 1)
    assert not ottla_broker.faults.pending


def test_without_acks_a_failed_request_closes_the_connection(ottla_broker: EmbeddedBroker) -> None:
    async def main() -> None:
        async with ottla.Producer(ottla_broker.bootstrap, acks=0) as producer:
            await producer.send("orders", "lost")

    ottla_broker.create_topic("orders")
    fault = ottla_broker.faults.fail("produce", "NOT_LEADER_OR_FOLLOWER")
    asyncio.run(main())
    deadline = time.monotonic() + 20
    while not fault.hits:  # no answer comes, so no client waits
        assert time.monotonic() < deadline
    assert values(ottla_broker) == []


def test_what_cannot_be_meant_is_refused(ottla_broker: EmbeddedBroker) -> None:
    faults = ottla_broker.faults
    with pytest.raises(ValueError, match="no ApiKey 'prodce'"):
        faults.delay("prodce", ms=1)
    with pytest.raises(ValueError, match="no ErrorCode 'OOPS'"):
        faults.fail("produce", "OOPS")
    with pytest.raises(ValueError, match="times must be at least 1"):
        faults.lose_answer("produce", times=0)
    with pytest.raises(ValueError, match="more than 0"):
        faults.slow_reads(bytes_per_second=0)
    assert faults.pending == ()
