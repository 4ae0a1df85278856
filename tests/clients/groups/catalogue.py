"""The families as members of groups: what each can do, and how to start a program with them.

Tests are generated from this table (`group_families`), so that what a family cannot do is missing in the
open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from tests.clients.families.driver_family import Driver
from tests.clients.groups.host import Host, python_host
from tests.clients.groups.model import Assignor, GroupAbility
from tests.compat.foreign_clients import franz_driver, java_driver, kafkajs_driver


@dataclass(frozen=True, slots=True)
class GroupFamily:
    """A client library as a member of groups."""

    name: str
    start: Callable[[], Driver]
    assignors: tuple[Assignor, ...]
    abilities: frozenset[GroupAbility]
    from_pypi: bool = True
    session_timeout_ms: int = 800  # where a test waits for its end: as short as this client is quick

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        return () if self.from_pypi else (pytest.mark.compat,)


ALL: frozenset[GroupAbility] = frozenset(
    {
        "static",
        "fenced",
        "max_poll_interval",
        "pattern",
        "later_topic",
        "async_commit",
        "simple_commit",
        "committed_metadata",
        "commit_names_its_error",
        "pause",
        "different_topics",
    }
)
ALL_ASSIGNORS: tuple[Assignor, ...] = ("range", "roundrobin", "sticky", "cooperative-sticky")

CONFLUENT = GroupFamily(
    "confluent", partial(python_host, "confluent"), ("range", "roundrobin", "cooperative-sticky"), ALL
)
AIOKAFKA = GroupFamily(
    "aiokafka",
    partial(python_host, "aiokafka"),
    ("range", "roundrobin", "sticky"),
    ALL - {"fenced", "later_topic", "async_commit", "committed_metadata", "commit_names_its_error"},
)
KAFKA_PYTHON = GroupFamily(
    "kafka-python", partial(python_host, "kafka-python"), ALL_ASSIGNORS, ALL - {"commit_names_its_error"}
)
KAFKAJS = GroupFamily(
    "kafkajs",
    kafkajs_driver,
    ("range", "roundrobin"),  # written as its guide says: its own round robin goes by a name of its own
    frozenset({"committed_metadata", "pause"}),
    from_pypi=False,
    session_timeout_ms=2000,
)
JAVA = GroupFamily("java", java_driver, ALL_ASSIGNORS, ALL, from_pypi=False, session_timeout_ms=2000)
# It has no limit of its own on the time between polls: heartbeats go on beside the application. It joins when the
# first topic of its subscription exists.
FRANZ_GO = GroupFamily(
    "franz-go",
    franz_driver,
    ALL_ASSIGNORS,
    ALL - {"max_poll_interval", "later_topic"},
    from_pypi=False,
    session_timeout_ms=2000,
)

OTTLA = GroupFamily(
    "ottla", partial(python_host, "ottla"), ALL_ASSIGNORS, ALL - {"async_commit"}, session_timeout_ms=800
)

FAMILIES = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, OTTLA, KAFKAJS, JAVA, FRANZ_GO)


def group_families(*needed: GroupAbility) -> pytest.MarkDecorator:
    """Run the test for each family that has all of these abilities."""
    able = [family for family in FAMILIES if family.abilities.issuperset(needed)]
    return pytest.mark.parametrize(
        "family", [pytest.param(family, id=family.name, marks=family.marks) for family in able]
    )


def family_assignors() -> pytest.MarkDecorator:
    """Run the test for each family and each of its assignors."""
    return pytest.mark.parametrize(
        ("family", "assignor"),
        [
            pytest.param(family, assignor, id=f"{family.name}-{assignor}", marks=family.marks)
            for family in FAMILIES
            for assignor in family.assignors
        ],
    )


def mixed(assignor: Assignor, families: Sequence[GroupFamily]) -> list[GroupFamily]:
    """Those of the families that have an assignor."""
    return [family for family in families if assignor in family.assignors]


class Hosts:
    """The programs of a session: one shared by most tests per family, and fresh ones for tests that end
    them.
    """

    def __init__(self, start: Callable[[GroupFamily], Host]) -> None:
        self._start = start
        self._shared: dict[str, Host] = {}
        self._own: list[Host] = []

    def shared(self, family: GroupFamily) -> Host:
        if family.name not in self._shared:
            self._shared[family.name] = self._start(family)
        return self._shared[family.name]

    def own(self, family: GroupFamily) -> Host:
        host = self._start(family)
        self._own.append(host)
        return host

    def is_shared(self, host: Host) -> bool:
        return host in self._shared.values()

    def close_own(self) -> None:
        while self._own:
            host = self._own.pop()
            if host.is_running:
                host.kill()

    def close(self) -> None:
        self.close_own()
        for host in self._shared.values():
            host.close()
        self._shared.clear()
