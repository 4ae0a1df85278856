"""The operations that every member of a group has, whichever client library it uses.

A member is a real consumer with a poll loop of its own, inside a program (`host.py`) that can be killed or
frozen as a whole. The words here are translated by the programs, one per family; what a family has no word
for is missing from its abilities in `catalogue.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

Assignor = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
CommitPolicy = Literal["none", "auto", "each"]  # nothing; by the client's clock; by hand after each poll
Partition = tuple[str, int]

GroupAbility = Literal[
    "static",  # group.instance.id
    "fenced",  # its first self is told that it was fenced (aiokafka's Heartbeat is too old to be told)
    "max_poll_interval",  # it leaves by itself when its application does not poll
    "pattern",  # a pattern that is looked at again when topics come
    "later_topic",  # a subscription to a topic that is not there yet
    "async_commit",
    "simple_commit",  # offsets of a group that the consumer is no member of
    "committed_metadata",  # it shows the metadata of a committed offset
    "commit_names_its_error",  # a refused commit says why in the broker's word
    "pause",
    "different_topics",  # members of one group may want different topics (kafkajs' leader looks at its own only)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """How a consumer joins. `partitions` are assigned by hand: then it is no member and only keeps
    offsets.
    """

    bootstrap: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()
    assignors: tuple[Assignor, ...] = ("range",)
    instance_id: str | None = None
    session_timeout_ms: int = 20_000  # a session of which no test waits for the end
    heartbeat_interval_ms: int = 50  # by which a member hears of a rebalance
    max_poll_interval_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    commits: CommitPolicy = "none"
    reset: Literal["earliest", "latest"] = "earliest"
    max_poll_records: int = 500
    journal: str | None = (
        None  # a file that gets a line per record before, and a line per commit after it happened
    )


@dataclass(frozen=True, slots=True)
class Consumed:
    """A record that a member received."""

    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset; -1 if there is none. Not every client shows the metadata."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a member's assignment as its application hears of it."""

    kind: Literal["assigned", "revoked", "lost"]
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class View:
    """A member as it was at one moment."""

    member_id: str
    assignment: frozenset[Partition]
    records: tuple[Consumed, ...]
    events: tuple[Event, ...]
    errors: tuple[str, ...]

    @property
    def values(self) -> list[str]:
        return [record.value for record in self.records]


def values_by_partition(records: tuple[Consumed, ...]) -> dict[Partition, list[Consumed]]:
    """The records of each partition in the order in which they came."""
    found: dict[Partition, list[Consumed]] = defaultdict(list)
    for record in records:
        found[record.topic, record.partition].append(record)
    return found
