"""Used by every test of groups: a broker that does not wait for a group's first members, members, topics, a
producer.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from bench.apache.maven import CannotFetchError
from tests.clients.conftest import await_topic
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.groups.catalogue import GroupFamily, Hosts
from tests.clients.groups.host import Host, Member
from tests.clients.groups.model import Membership
from tests.clients.groups.offsets_topic import PARTITIONS
from tests.clients.model import Client, Message
from tests.conftest import start

from ottla.blocking import Admin
from ottla.localcluster.broker_process import BrokerProcess, running

COUNTER = itertools.count()
# Groups begin at once, and sessions may be so short that a test can wait for their end. Some clients would
# create a topic by asking for it. Fewer partitions are closed sooner.
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": str(PARTITIONS),
}
OUR_MISTAKES = ("TypeError", "AttributeError", "KeyError", "NameError", "ReferenceError", "java.lang.")


def start_host(family: GroupFamily) -> Host:
    """A family's program; a client that cannot be had is said loudly."""
    try:
        return Host(family.name, family.start())
    except CannotFetchError as reason:
        pytest.skip(f"NO {family.name.upper()} TO TRY: {reason}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Kill the control with one client only: it comes back slowly, and how it does is not what is tried
    here.
    """
    tried_once = [
        item
        for item in items
        if item.path.name == "test_crashes.py"
        and "[apache-" in item.name
        and "[apache-confluent]" not in item.name
    ]
    if tried_once:
        config.hook.pytest_deselected(items=tried_once)
        items[:] = [item for item in items if item not in tried_once]


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    hosts = Hosts(start_host)
    yield hosts
    hosts.close()


@pytest.fixture(scope="session")
def group_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker under test, quick with groups. What it has is not needed afterwards, so it need not close
    it.
    """
    data = tmp_path_factory.mktemp(f"groups-{target}") / "data"
    with running(start(target, data, GROUP_SETTINGS)) as process:
        with Admin(process.bootstrap) as admin:
            admin.list_group_offsets(
                "nobody"
            )  # Apache Kafka has no coordinators before a client asks for one
        yield process
        process.kill()


class GroupTrial:
    """One test's group: its name, its topic, its members, and a writer."""

    def __init__(self, broker: BrokerProcess, hosts: Hosts, name: str) -> None:
        self.broker = broker
        self.group = name
        self.topic = name
        self.writer: Client = ConfluentClient(broker.bootstrap)
        self.hosts = hosts
        self.members: list[Member] = []
        self.written = 0

    def make_topic(self, partitions: int, name: str | None = None) -> str:
        self.writer.create_topic(name or self.topic, partitions)
        await_topic(self.broker, self.writer, name or self.topic)
        return name or self.topic

    def join(self, family: GroupFamily, *, host: Host | None = None, **wishes: Any) -> Member:
        """A member of this group, by default in the family's shared program, for this test's topic."""
        if not {"topics", "pattern", "partitions"} & wishes.keys():
            wishes["topics"] = (self.topic,)
        wishes.setdefault("group", self.group)
        membership = Membership(bootstrap=self.broker.bootstrap, **wishes)
        member = (host or self.hosts.shared(family)).join(membership)
        self.members.append(member)
        return member

    def write(self, count: int, partitions: int, topic: str | None = None) -> list[str]:
        """This number of records, over all partitions in turn, none like another; returns their values."""
        values = [f"v{self.written + n}" for n in range(count)]
        self.written += count
        for partition in range(partitions):
            part = [Message(value.encode()) for value in values[partition::partitions]]
            if part:
                self.writer.produce(topic or self.topic, part, partition=partition)
        return values

    def restart_broker(self, *, kill: bool = False) -> None:
        """End the broker, in peace or not, and start it again on its data and its port."""
        if kill:
            self.broker.kill()
        else:
            self.broker.stop()
        again = start(self.broker.name, self.broker.data, GROUP_SETTINGS, port=self.broker.port)
        self.broker.process = again.process

    def check_programs(self) -> None:
        """Mistakes of our own programs must not pass for behaviour of a client."""
        for member in self.members:
            if self.hosts.is_shared(member.host):
                wrong = [error for error in member.look().errors if error.startswith(OUR_MISTAKES)]
                assert not wrong, f"{member.name}: {wrong}"

    def close(self) -> None:
        self.hosts.close_own()  # first: some of them may be frozen, and would not answer
        for member in self.members:
            # A test may have made it such that it cannot leave in peace.
            with contextlib.suppress(Exception):
                member.leave()
        self.writer.close()


@pytest.fixture(scope="session")
def restarting_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that tests may stop and start again, each in its turn."""
    data = tmp_path_factory.mktemp(f"restarting-{target}") / "data"
    with running(start(target, data, GROUP_SETTINGS)) as process:
        yield process


@pytest.fixture
def restarting_trial(
    restarting_broker: BrokerProcess, hosts: Hosts, request: pytest.FixtureRequest
) -> Iterator[GroupTrial]:
    trial = GroupTrial(restarting_broker, hosts, f"r{next(COUNTER)}-{request.function.__name__[5:30]}")
    try:
        yield trial
        trial.check_programs()
    finally:
        trial.close()


@pytest.fixture
def trial(group_broker: BrokerProcess, hosts: Hosts, request: pytest.FixtureRequest) -> Iterator[GroupTrial]:
    trial = GroupTrial(group_broker, hosts, f"g{next(COUNTER)}-{request.function.__name__[5:30]}")
    try:
        yield trial
        trial.check_programs()
    finally:
        trial.close()
