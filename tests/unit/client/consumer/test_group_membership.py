"""A membership between its session and its subscription, against a real broker.

The tests attend to rebalances themselves, so that they see what waits for the application and what does not.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import pytest

import ottla.testing
from ottla.blocking import Admin
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.group_membership import GroupMembership, Topics
from ottla.client.consumer.plan.settings import ConsumerSettings
from ottla.client.consumer.reading import Reading
from ottla.client.consumer.subscription import Listeners
from ottla.model import TopicPartition, parse_addresses

DEADLINE_S = 30.0
EAGER, COOPERATIVE = ["range"], ["cooperative-sticky"]


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture
def topic(broker: ottla.testing.EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    broker.create_topic(request.node.name, 2)
    return str(request.node.name)


def settings(group_id: str, strategy: list[str]) -> ConsumerSettings:
    """A consumer's defaults, with metadata that is asked for often."""
    parameters = inspect.signature(Consumer).parameters
    defaults: dict[str, Any] = {each.name: parameters[each.name].default for each in fields(ConsumerSettings)}
    defaults |= {"group_id": group_id, "partition_assignment_strategy": strategy, "metadata_max_age_ms": 50}
    return ConsumerSettings(**defaults)


@asynccontextmanager
async def reading(
    broker: ottla.testing.EmbeddedBroker, group_id: str, strategy: list[str] = EAGER
) -> AsyncIterator[Reading]:
    known = KnownCluster(parse_addresses(broker.bootstrap), remembers_coordinators=True)
    parts = Reading(Connections(known, client_id="test", timeout_ms=30_000), settings(group_id, strategy))
    await parts.open()
    try:
        yield parts
    finally:
        await parts.close()


def joined(parts: Reading, topics: Topics, listeners: Listeners | None = None) -> GroupMembership:
    parts.subscribe(topics, listeners or Listeners())
    assert parts.membership is not None
    return parts.membership


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what is no event of asyncio's."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def attended(membership: GroupMembership, condition: Callable[[], bool]) -> None:
    """Do the application's part of rebalances until a condition holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await membership.attend()
            await asyncio.sleep(0.002)


def held(parts: Reading) -> set[TopicPartition]:
    return set(parts.readers)


def of(topic: str, *partitions: int) -> set[TopicPartition]:
    return {TopicPartition(topic, partition) for partition in partitions}


def run(body: Awaitable[None]) -> None:
    async def whole() -> None:
        await body

    asyncio.run(whole())


def test_an_assignment_waits_until_the_application_attends(
    broker: ottla.testing.EmbeddedBroker, topic: str
) -> None:
    async def body() -> None:
        async with reading(broker, topic) as parts:
            membership = joined(parts, [topic])
            assert membership.topics == {topic}
            await until(lambda: membership.has_pending)
            assert membership.session.is_stable
            assert held(parts) == set()
            await membership.attend()
            assert held(parts) == of(topic, 0, 1)
            assert not membership.has_pending

    run(body())


def test_an_eager_member_gives_everything_up_before_it_joins_again(
    broker: ottla.testing.EmbeddedBroker, topic: str
) -> None:
    heard: list[tuple[str, int]] = []
    listeners = Listeners(
        on_assigned=lambda partitions: heard.append(("assigned", len(partitions))),
        on_revoked=lambda partitions: heard.append(("revoked", len(partitions))),
    )

    async def body() -> None:
        async with reading(broker, topic) as parts:
            membership = joined(parts, [topic], listeners)
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))
            generation = membership.session.membership.generation_id
            membership.subscribe([topic], listeners)
            await until(lambda: membership.has_pending)
            # The group waits: nothing is given up while the application is busy.
            assert held(parts) == of(topic, 0, 1)
            assert membership.session.membership.generation_id == generation
            await membership.attend()
            assert held(parts) == set()
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))
            assert membership.session.membership.generation_id > generation

    run(body())
    assert heard == [("assigned", 2), ("revoked", 2), ("assigned", 2), ("revoked", 2)]


def test_a_cooperative_member_joins_again_without_the_application(
    broker: ottla.testing.EmbeddedBroker, topic: str
) -> None:
    async def body() -> None:
        async with reading(broker, topic, COOPERATIVE) as parts:
            membership = joined(parts, [topic])
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))
            generation = membership.session.membership.generation_id
            membership.subscribe([topic], Listeners())
            await until(lambda: membership.session.membership.generation_id > generation)
            await until(lambda: membership.session.is_stable)
            assert held(parts) == of(topic, 0, 1)

    run(body())


def test_a_pattern_joins_when_the_matching_topics_are_known_and_again_when_others_match(
    broker: ottla.testing.EmbeddedBroker, topic: str
) -> None:
    async def body() -> None:
        async with reading(broker, topic) as parts:
            membership = joined(parts, re.compile(f"{topic}.*"))
            assert membership.session.is_new
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))
            another = f"{topic}-2"
            await asyncio.to_thread(broker.create_topic, another, 1)
            await attended(membership, lambda: held(parts) == of(topic, 0, 1) | of(another, 0))
            assert membership.topics == {topic, another}

    run(body())


def test_a_topic_that_grows_is_divided_again(broker: ottla.testing.EmbeddedBroker, topic: str) -> None:
    def grow() -> None:
        with Admin(broker.bootstrap) as admin:
            admin.create_partitions({topic: 3})

    async def body() -> None:
        async with reading(broker, topic) as parts:
            membership = joined(parts, [topic])
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))
            await asyncio.to_thread(grow)
            await attended(membership, lambda: held(parts) == of(topic, 0, 1, 2))

    run(body())


def test_a_listener_that_fails_does_not_hold_up_the_group(
    broker: ottla.testing.EmbeddedBroker, topic: str
) -> None:
    def fail(_: frozenset[TopicPartition]) -> None:
        raise RuntimeError("the application's own")

    async def body() -> None:
        async with reading(broker, topic) as parts:
            membership = joined(parts, [topic], Listeners(on_revoked=fail))
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))
            membership.subscribe([topic], Listeners(on_revoked=fail))
            await until(lambda: membership.has_pending)
            with pytest.raises(RuntimeError, match="the application's own"):
                await membership.attend()
            membership.subscribe([topic], Listeners())
            await attended(
                membership, lambda: membership.session.is_stable and held(parts) == of(topic, 0, 1)
            )

    run(body())


def test_a_member_that_leaves_gives_its_partitions_to_the_others(
    broker: ottla.testing.EmbeddedBroker, topic: str
) -> None:
    async def body() -> None:
        async with reading(broker, topic) as parts:
            membership = joined(parts, [topic])
            async with reading(broker, topic) as other_parts:
                other = joined(other_parts, [topic])

                def is_divided() -> bool:
                    return len(held(parts)) == len(held(other_parts)) == 1

                async with asyncio.timeout(DEADLINE_S):
                    while not is_divided():
                        await membership.attend()
                        await other.attend()
                        await asyncio.sleep(0.002)
            assert other.failure is None
            await attended(membership, lambda: held(parts) == of(topic, 0, 1))

    run(body())
