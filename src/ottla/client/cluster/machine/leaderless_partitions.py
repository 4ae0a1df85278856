"""Partitions without a leader: the steps that compare the logs of their live replicas, and elect one of them.

Two logs are equal up to the end of the last leader epoch that both hold (`common_end`): one leader wrote each
epoch, in order. So the records that an election would give up can be counted without reading them. A replica
that does not answer is named with the reason, and no other replica waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.requests.leaderless import (
    NOT_RUNNING,
    DescribedPartition,
    LeaderCandidate,
    LeaderlessPartition,
    ReplicaOffset,
    describe_partitions_request,
    designated_election_request,
    epoch_end,
    epoch_end_request,
    leaderless_in,
    replica_offsets,
    replica_offsets_request,
)
from ottla.client.requests.reassignments import elected_leaders
from ottla.errors import KafkaError
from ottla.model import NO_EPOCH, TopicPartition
from ottla.protocol.messages.leader_epochs import REPLICA_ID_SINCE
from ottla.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TIMESTAMPS_SINCE,
)
from ottla.protocol.messages.partitions import DESIGNATED_ELECTION_SINCE

# A replica that takes longer to tell the ends of its logs is treated as one that is away.
_REPLICA_TIMEOUT_MS: Final = 5_000

Leaderless = dict[TopicPartition, LeaderlessPartition]
_Described = dict[TopicPartition, DescribedPartition]


def describe_leaderless(topics: Iterable[str]) -> Inquiry[str, None, Leaderless]:
    """The partitions without a leader, of these topics or of all, under the key ""."""
    names = list(topics)

    def attempt(_: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, Leaderless | KafkaError]]:
        described = yield from _described(names, left_ms)
        logs = yield from _logs(described, min(left_ms, _REPLICA_TIMEOUT_MS))
        found: Leaderless = {}
        for partition, description in described.items():
            found[partition] = yield from _compared(partition, description, logs)
        return {"": found}

    return Inquiry({"": None}, attempt)


def elect_replicas(leaders: Mapping[TopicPartition, int]) -> Inquiry[TopicPartition, int, None]:
    """Elect the named replica of each partition that has no leader."""

    def attempt(
        pending: Mapping[TopicPartition, int], left_ms: int
    ) -> Steps[Mapping[TopicPartition, KafkaError | None]]:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for leader in sorted(set(pending.values())):
            part = [partition for partition, wanted in pending.items() if wanted == leader]
            request = designated_election_request(leader, part, left_ms)
            response = yield Ask(None, request, left_ms, at_least=DESIGNATED_ELECTION_SINCE)
            outcomes.update(elected_leaders(response, part))
        return outcomes

    chosen: Attempt[TopicPartition, int, None] = attempt
    return Inquiry(leaders, chosen)


def _described(topics: list[str], left_ms: int) -> Steps[_Described]:
    found: _Described = {}
    cursor = None
    while True:
        response = yield Ask(None, describe_partitions_request(topics, cursor), left_ms)
        found.update(leaderless_in(response))
        cursor = response.next_cursor
        if cursor is None:
            return found


# ---- the logs of live replicas


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """A replica's log of one partition."""

    node_id: int
    start_offset: int
    end_offset: int
    last_epoch: int
    newest_timestamp_ms: int


_Logs = dict[
    tuple[TopicPartition, int], ReplicaLog | str
]  # by partition and replica: a log, or why it is unknown


def _logs(described: _Described, timeout_ms: int) -> Steps[_Logs]:
    """The logs of all live replicas: three questions to each broker."""
    logs: _Logs = {}
    nodes = sorted({node_id for each in described.values() for node_id in each.replicas})
    for node_id in nodes:
        held = [partition for partition, each in described.items() if node_id in each.replicas]
        away = [partition for partition in held if node_id in described[partition].offline]
        asked = [partition for partition in held if partition not in away]
        logs.update({(partition, node_id): NOT_RUNNING for partition in away})
        if asked:
            try:
                logs.update((yield from _logs_of(node_id, asked, timeout_ms)))
            except (KafkaError, ConnectionError, TimeoutError) as problem:
                logs.update({(partition, node_id): str(problem) for partition in asked})
    return logs


def _logs_of(node_id: int, partitions: list[TopicPartition], timeout_ms: int) -> Steps[_Logs]:
    answers: dict[int, dict[TopicPartition, ReplicaOffset | KafkaError]] = {}
    for timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP):
        request = replica_offsets_request(partitions, timestamp)
        response = yield Ask(node_id, request, timeout_ms, at_least=TIMESTAMPS_SINCE[MAX_TIMESTAMP])
        answers[timestamp] = replica_offsets(response)
    return {(partition, node_id): _log(node_id, partition, answers) for partition in partitions}


def _log(
    node_id: int,
    partition: TopicPartition,
    answers: Mapping[int, Mapping[TopicPartition, ReplicaOffset | KafkaError]],
) -> ReplicaLog | str:
    first = answers[EARLIEST_TIMESTAMP].get(partition)
    last = answers[LATEST_TIMESTAMP].get(partition)
    newest = answers[MAX_TIMESTAMP].get(partition)
    for each in (first, last, newest):
        if not isinstance(each, ReplicaOffset):
            return "its answer left the partition out" if each is None else each.message
    assert isinstance(first, ReplicaOffset)
    assert isinstance(last, ReplicaOffset)
    assert isinstance(newest, ReplicaOffset)
    return ReplicaLog(node_id, first.offset, last.offset, last.epoch, newest.timestamp_ms)


# ---- what each of them lacks


def _compared(
    partition: TopicPartition, described: DescribedPartition, logs: _Logs
) -> Steps[LeaderlessPartition]:
    found = {node_id: logs[partition, node_id] for node_id in described.replicas}
    live = [log for log in found.values() if isinstance(log, ReplicaLog)]
    # The first of equals is the preferred leader: sorting keeps their order.
    live.sort(key=lambda log: (-log.last_epoch, -log.end_offset))
    candidates = [
        LeaderCandidate(
            log.node_id, log.start_offset, log.end_offset, log.last_epoch, log.newest_timestamp_ms, {}
        )
        for log in live
    ]
    for place, log in enumerate(live):
        gives_up: dict[int, int | None] = {}
        for other in live:
            if other is not log:
                gives_up[other.node_id] = yield from _given_up(partition, log, other)
        candidates[place] = replace(candidates[place], gives_up=gives_up)
    return LeaderlessPartition(
        replicas=described.replicas,
        isr=described.isr,
        eligible=described.eligible,
        last_leader=described.last_leader,
        candidates=tuple(candidates),
        silent={node_id: reason for node_id, reason in found.items() if isinstance(reason, str)},
    )


def _given_up(partition: TopicPartition, chosen: ReplicaLog, other: ReplicaLog) -> Steps[int | None]:
    """How many records of the other log are not in the chosen one; None if that cannot be found out."""
    try:
        common = yield from common_end(partition, chosen, other)
    except (KafkaError, ConnectionError, TimeoutError):
        return None
    return (
        None if common is None else other.end_offset - min(max(common, other.start_offset), other.end_offset)
    )


def common_end(partition: TopicPartition, one: ReplicaLog, other: ReplicaLog) -> Steps[int | None]:
    """The offset up to which two logs are equal; None if a replica does not know an epoch any more."""
    epoch = min(one.last_epoch, other.last_epoch)
    common = min(one.end_offset, other.end_offset)
    if one.last_epoch == other.last_epoch:
        return common
    while epoch > NO_EPOCH:
        ends = []
        for log in (one, other):
            request = epoch_end_request(partition, epoch)
            response = yield Ask(log.node_id, request, _REPLICA_TIMEOUT_MS, at_least=REPLICA_ID_SINCE)
            ends.append(epoch_end(response))
        first, second = ends
        if first is None or second is None:
            return None
        common = min(common, first.end_offset, second.end_offset)
        if first.epoch == second.epoch:
            return common
        epoch = min(first.epoch, second.epoch)
    return min(one.start_offset, other.start_offset)
