"""Used by every client test: the family connected to the broker, a fresh topic, a second pair of eyes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from bench.apache.maven import CannotFetchError
from tests.clients.catalogue import PROGRAMS, Family
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.model import Client, RefusedError

from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until

COUNTER = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _programs() -> Iterator[None]:
    yield
    PROGRAMS.close()


@pytest.fixture
def client(family: Family, broker: BrokerProcess) -> Iterator[Client]:
    """The family under test, connected to the broker under test."""
    connected = connect(family, broker.bootstrap)
    yield connected
    connected.close()


def connect(family: Family, bootstrap: str) -> Client:
    try:
        return family.connect(bootstrap)
    except CannotFetchError as reason:
        pytest.skip(f"NO {family.name.upper()} TO TRY: {reason}")


@pytest.fixture(scope="session")
def reference(broker: BrokerProcess) -> Iterator[Client]:
    """A client that is not under test: it makes topics and writes where the family cannot."""
    client = ConfluentClient(broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"t{next(COUNTER)}-{request.function.__name__[:60]}"


MakeTopic = Callable[..., str]


@pytest.fixture
def make_topic(broker: BrokerProcess, reference: Client, topic_name: str) -> MakeTopic:
    """Create this test's topic, with the partitions and configs given, and answer its name."""

    def make(partitions: int = 1, **configs: str) -> str:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        reference.create_topic(topic_name, partitions, configs=named)
        await_topic(broker, reference, topic_name)
        return topic_name

    return make


def await_topic(broker: BrokerProcess, client: Client, topic: str) -> None:
    """Apache Kafka answers that a topic is created before its broker has heard of it, and of each of its
    partitions (a client that sends everything again for one partition that is not there yet writes twice).
    Ours may be taken at its word.
    """

    def is_known() -> bool:
        try:
            partitions = client.describe_topic(topic)
            return bool(partitions) and all(
                client.list_offset(topic, each, "latest") == 0 for each in partitions
            )
        except RefusedError:
            return False

    if broker.name != "ottla":
        wait_until(is_known, f"{topic} is known")
