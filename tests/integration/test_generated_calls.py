"""The whole public API of the clients, called wrongly: every argument with every wrong value, before opening,
after closing, and cancelled at each await. Each call ends with a clear error within a deadline, and a right
call works afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias
from uuid import UUID

import pytest
from tests.integration.awaiting import awaited
from tests.integration.in_process import BrokerThread
from tests.integration.wrong_values import arguments_of, fits, wrong_values

import ottla
import ottla.blocking
import ottla.testing
from ottla.client.requests.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.transactions import ActiveProducer
from ottla.model import TopicPartition

Client: TypeAlias = Any

DEADLINE_SECONDS: Final = 5.0
TOPIC: Final = "called"
T0: Final = TopicPartition(TOPIC, 0)
RESOURCE: Final = ConfigResource(ResourceType.TOPIC, TOPIC)
CLASSES: Final = (ottla.Producer, ottla.Consumer, ottla.Admin)
BLOCKING: Final = (ottla.blocking.Producer, ottla.blocking.Consumer, ottla.blocking.Admin)
# Plain access to a state: right at any time.
STATES: Final = {
    "assignment",
    "subscription",
    "paused",
    "group_id",
    "member_id",
    "is_open",
    "isolation_level",
}
# Not for applications: what they take is not made by hand, or is not an argument in the usual sense.
INTERNAL: Final = {"attach", "send_block"}
# These need a transactional producer: test_transactions cancels them.
TRANSACTIONAL: Final = {"send_offsets", "prepare", "hand_over", "complete"}
# The right arguments of calls that need some, by the argument's name; by the call's name where that differs.
RIGHT: Final[dict[str, Any]] = {
    "directory_id": UUID(int=4),
    "address": "localhost:9092",
    "topic": TOPIC,
    "value": b"v",
    "partitions": [T0],
    "partition": T0,
    "offset": 0,
    "when": 0,
    "topics": [TOPIC],
    "names": [TOPIC],
    "counts": {TOPIC: 9},
    "resources": [RESOURCE],
    "kind": ottla.ResourceType.TOPIC,
    "changes": {RESOURCE: [ConfigChange("retention.ms", "100000")]},
    "wanted": {T0: 0},
    "offsets": {T0: 0},
    "before": {T0: 0},
    "node_id": 1,
    "replicas": {T0: None},
    "leaders": {T0: 1},
    "group_id": "called",
    "group": "called",
    "name": "metadata.version",
    "level": 7,
    "send_offsets": {"offsets": {T0: 0}},
    "transactional_ids": ["called"],
    "producer": ActiveProducer(1, 0, 0, 0, -1, None),
    "silent_since_ms": 0,
    "create_topics": {"topics": [ottla.NewTopic("created")]},
    "delete_topics": {"names": ["created"]},
    "describe_groups": {"names": ["called"]},
    "delete_groups": {"names": ["nobody"]},
    "alter_group_offsets": {"offsets": {T0: CommittedOffset(0)}},
    "unregister_broker": {"node_id": 9},
    "acls": [ottla.Acl(ottla.Pattern.topic(TOPIC), "User:called", "*", ottla.Operation.READ)],
    "filters": [ottla.AclFilter(principal="User:called")],
    "stored": None,
    "token": b"hmac",
    "alter_quotas": {"changes": {ottla.QuotaEntity(user="called"): {"producer_byte_rate": 10**9}}},
    "alter_users": {"changes": [ottla.ScramPassword("called", "secret")]},
}


def calls_of(kind: type) -> list[str]:
    """The public methods of a client."""
    return [
        name
        for name, member in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(member) and name not in INTERNAL
    ]


def right_arguments(kind: type, name: str) -> dict[str, Any]:
    call = getattr(kind, name)
    needed = [
        each.name
        for each in inspect.signature(call).parameters.values()
        if each.default is each.empty and each.name != "self"
    ]
    return {each: RIGHT[each] for each in needed} | dict(RIGHT.get(name, {}))


def wrong_calls(kind: type, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each argument with each wrong value, the others right."""
    right = right_arguments(kind, name)
    for argument, annotation in arguments_of(getattr(kind, name)).items():
        for value in wrong_values(annotation):
            if argument == "headers" and value is None:
                continue  # no headers: as good as an empty list
            yield argument, right | {argument: value}


async def outcome_of(call: Callable[[], Any]) -> BaseException | None:
    """The error that a call ends with, within the deadline."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS) as deadline:
            answer = call()
            if inspect.isawaitable(answer):
                await answer
    except Exception as error:
        assert not deadline.expired(), "the call did not end"
        return error
    return None


def complaint(argument: str, error: BaseException | None) -> str | None:
    """What is wrong with the way in which a wrong argument was refused."""
    if not isinstance(error, TypeError | ValueError | ottla.KafkaError):
        return f"ended with {error!r}"
    return None if re.search(rf"\b{argument}\b", str(error)) else f"does not name the argument: {error!r}"


@contextlib.asynccontextmanager
async def opened(kind: type, bootstrap: str) -> Any:
    """A client in its usual state: a consumer reads a partition."""
    settings = {"group_id": "called"} if kind is ottla.Consumer else {}
    client: Client = kind(bootstrap, **settings)
    async with client:
        if kind is ottla.Consumer:
            client.assign([T0])
            client.seek(T0, 0)
        yield client


async def works(client: Client) -> None:
    """A right call does what it should."""
    if isinstance(client, ottla.Producer):
        assert (await client.send(TOPIC, b"right")).topic == TOPIC
    elif isinstance(client, ottla.Consumer):
        client.assign([T0])
        client.seek(T0, 0)
        assert (await client.poll(timeout_ms=5_000, max_records=1))[0].offset == 0
    else:
        assert TOPIC in {topic.name for topic in await client.list_topics()}


@pytest.fixture(scope="module")
def bootstrap(served: BrokerThread) -> str:
    address = f"localhost:{served.port}"
    with ottla.blocking.Producer(address) as producer:
        producer.send(TOPIC, b"first")
    return address


@pytest.mark.parametrize("kind", CLASSES)
def test_a_wrong_argument_is_refused_and_named(kind: type, bootstrap: str) -> None:
    async def body() -> None:
        complaints: list[str] = []
        async with opened(kind, bootstrap) as client:
            for name in calls_of(kind):
                for argument, given in wrong_calls(kind, name):
                    error = await outcome_of(lambda: getattr(client, name)(**given))  # noqa: B023
                    if (why := complaint(argument, error)) is not None:
                        complaints.append(f"{name}({argument}={given[argument]!r}) {why}")
            await works(client)
        assert complaints == []

    awaited(body)


@pytest.mark.parametrize("kind", [*CLASSES, *BLOCKING])
def test_a_wrong_setting_is_refused_and_named(kind: type) -> None:
    complaints = []
    for argument, annotation in arguments_of(
        kind.__init__ if kind in CLASSES else CLASSES[BLOCKING.index(kind)].__init__
    ).items():
        for value in wrong_values(annotation) if kind in CLASSES else list(wrong_values(annotation))[-1:]:
            if argument == "runtime":
                continue  # for the simulation
            try:
                kind(**{argument: value})
                error: Exception | None = None
            except Exception as refused:
                error = refused
            if (why := complaint(argument, error)) is not None:
                complaints.append(f"{kind.__name__}({argument}={value!r}) {why}")
    assert complaints == []


@pytest.mark.parametrize("kind", CLASSES)
def test_a_client_that_is_not_open_says_so(kind: type, bootstrap: str) -> None:
    async def refused(client: Client) -> list[str]:
        complaints = []
        for name in calls_of(kind):
            call = getattr(client, name)
            error = await outcome_of(lambda: call(**right_arguments(kind, name)))  # noqa: B023
            if name != "close" and not (isinstance(error, RuntimeError) and "not open" in str(error)):
                complaints.append(f"{name} {error!r}")
        return complaints

    async def body() -> None:
        assert await refused(kind(bootstrap)) == []
        async with opened(kind, bootstrap) as client:
            pass
        assert await refused(client) == []
        for state in STATES.intersection(dir(client)):
            getattr(client, state)

    awaited(body)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_call_that_is_cancelled_at_any_await_leaves_the_client_as_it_was(
    kind: type, bootstrap: str
) -> None:
    async def body() -> None:
        async with opened(kind, bootstrap) as client:
            for name in calls_of(kind):
                call = getattr(client, name)
                if name in ("close", *TRANSACTIONAL) or not inspect.iscoroutinefunction(call):
                    continue
                for turns in range(5):
                    task = asyncio.ensure_future(call(**right_arguments(kind, name)))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait({task}, timeout=DEADLINE_SECONDS)
                    assert task.done(), f"{name} does not end when it is cancelled"
                    with contextlib.suppress(asyncio.CancelledError, ottla.KafkaError):
                        task.result()
            await works(client)

    awaited(body)


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_blocking_client_refuses_the_same(kind: type, bootstrap: str) -> None:
    """One wrong value for each argument: the way through the thread is the same for all of them."""
    wrapped = CLASSES[BLOCKING.index(kind)]
    complaints = []
    client: Client = kind(bootstrap)
    with client:
        for name in calls_of(wrapped):
            for argument, given in dict(wrong_calls(wrapped, name)).items():
                try:
                    getattr(client, name)(**given)
                    error: Exception | None = None
                except Exception as refused:
                    error = refused
                if (why := complaint(argument, error)) is not None and "group_id" not in str(error):
                    complaints.append(f"{name}({argument}={given[argument]!r}) {why}")
    for name in calls_of(wrapped):
        if name != "close":
            with pytest.raises(RuntimeError, match="this client is closed"):
                getattr(client, name)(**right_arguments(wrapped, name))
    assert complaints == []


@pytest.mark.parametrize(
    "function", [ottla.at_least_once, ottla.at_most_once, ottla.exactly_once, ottla.succeeded, ottla.NewTopic]
)
def test_a_function_refuses_wrong_arguments(function: Callable[..., Any], bootstrap: str) -> None:
    async def handle(record: object) -> None:
        raise AssertionError

    async def body() -> None:
        complaints = []
        async with opened(ottla.Consumer, bootstrap) as consumer:
            producer = ottla.Producer(bootstrap)
            right = {
                "consumer": consumer,
                "producer": producer,
                "handle": handle,
                "outcomes": {},
                "name": "t",
            }
            for argument, annotation in arguments_of(function).items():
                for value in wrong_values(annotation):
                    given = {each: right[each] for each in right if each in arguments_of(function)}
                    error = await outcome_of(lambda: function(**given | {argument: value}))  # noqa: B023
                    if (why := complaint(argument, error)) is not None:
                        complaints.append(f"{function.__name__}({argument}={value!r}) {why}")
        assert complaints == []

    awaited(body)


@pytest.mark.parametrize("function", [ottla.testing.EmbeddedBroker, ottla.testing.EmbeddedCluster])
def test_a_broker_for_tests_refuses_wrong_arguments(function: type) -> None:
    complaints = []
    for argument, annotation in arguments_of(function.__init__).items():  # type: ignore[misc]
        for value in wrong_values(annotation):
            try:
                function(**{argument: value})
                error: Exception | None = None
            except Exception as refused:
                error = refused
            if (why := complaint(argument, error)) is not None:
                complaints.append(f"{function.__name__}({argument}={value!r}) {why}")
    assert complaints == []


def test_a_value_is_judged_by_the_annotation() -> None:
    assert fits(int | None, 7)
    assert fits(dict[str, int] | str, "abc")
    assert not fits(int, True)
    assert not fits(list[str] | None, 7)
