"""`python -m bench.groups`: what groups cost, and the target "groups" of docs/benchmarks.md.

python -m bench.groups            everything at full size, writes bench/RESULTS_GROUPS.md
python -m bench.groups --quick    a tenth of everything: is it still alive?

Four measurements, each on a broker of its own, with one load process beside it (this one):
heartbeats    1,000 groups of 10 members: the broker's share of one core while each heartbeats every 3 s
rebalance     a group of 100: from the departure of the last JoinGroup to the last SyncGroup's answer
restart       100,000 committed offsets in 2,000 groups: from the start of the process until the last shard answers, and
              that until then every answer is COORDINATOR_LOAD_IN_PROGRESS or right
commits       OffsetCommit of 1 and of 10 partitions, 32 in flight on one connection, and one after the other
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import messages, wire
from bench.figures import Figure, Run, table
from bench.group_load import Heart, Member, connections, form_groups, frame, pipelined, rebalance
from bench.processes import Stopwatch, cpu_seconds, memory_mebibytes

from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.server.coordinators.java_hash import partition_for

RESULTS = Path(__file__).with_name("RESULTS_GROUPS.md")
TOPIC = "measured"
PARTITIONS = 50
SHARDS = 50
COMMIT_VERSION = 9
FETCH_VERSION = 9
IN_FLIGHT = 32
SETTINGS = {"group.initial.rebalance.delay.ms": "300"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    groups: int = 1_000
    members: int = 10
    heart_connections: int = 300
    heartbeat_seconds: float = 15.0
    rebalance_members: int = 100
    rebalances: int = 5
    offset_groups: int = 2_000
    commits: int = 20_000


QUICK = Scale(100, 10, 50, 3.0, 100, 2, 200, 1_000)


@contextmanager
def broker(directory: Path, name: str) -> Iterator[BrokerProcess]:
    """A new broker that has the topic and knows groups."""
    with running(start_broker(directory / name, SETTINGS)) as started:
        with wire.connect(started.port) as connection:
            wire.create_topic(connection, TOPIC, PARTITIONS)
            messages.ask(connection, 6, FindCoordinatorRequest(coordinator_keys=["any"]))
        yield started


def measure_heartbeats(directory: Path, scale: Scale) -> list[Figure]:
    with broker(directory, "heartbeats") as started:
        begun = time.perf_counter()
        members = asyncio.run(form_groups(started.port, scale.groups, scale.members, min(scale.groups, 30)))
        formed_s = time.perf_counter() - begun
        heart = Heart(started.port, members, scale.heart_connections)
        try:
            heart.beat(1.0)
            watch = Stopwatch(started.pid)
            with watch:
                beats = heart.beat(scale.heartbeat_seconds)
        finally:
            heart.close()
        if beats.errors:
            raise AssertionError(f"{beats.errors} of {beats.sent} heartbeats were refused")
        what = f"{scale.groups} groups, {len(members)} members"
        return [
            Figure(f"{what}: formed in", formed_s, "s"),
            Figure(f"{what}: heartbeats", beats.sent / watch.seconds, "per s"),
            Figure(
                f"{what}: broker's share of a core", 100 * watch.cpu_seconds / watch.seconds, "%", limit=20
            ),
            Figure("heartbeat: broker CPU", 1e6 * watch.cpu_seconds / beats.sent, "µs"),
            Figure("heartbeat: median latency", beats.percentile_us(0.5), "µs"),
            Figure("heartbeat: 99 % within", beats.percentile_us(0.99), "µs"),
            Figure("broker's memory with these groups", memory_mebibytes(started.pid)[0], "MiB"),
        ]


def measure_rebalance(directory: Path, scale: Scale) -> list[Figure]:
    async def run(port: int, pid: int) -> tuple[list[float], float]:
        async with connections(port, scale.rebalance_members) as opened:
            members = [Member("bench-rebalance", connection) for connection in opened]
            await asyncio.gather(*[member.become_stable() for member in members])
            watch = Stopwatch(pid)
            with watch:
                took = [await rebalance(members) for _ in range(scale.rebalances)]
            return took, watch.cpu_seconds / scale.rebalances

    with broker(directory, "rebalance") as started:
        took_s, cpu_s = asyncio.run(run(started.port, started.pid))
    what = f"rebalance of {scale.rebalance_members}"
    return [
        Figure(f"{what}: last join to last sync, median", 1e3 * statistics.median(took_s), "ms", limit=1000),
        Figure(f"{what}: slowest of {scale.rebalances}", 1e3 * max(took_s), "ms", limit=1000),
        Figure(f"{what}: broker CPU, all of it", 1e3 * cpu_s, "ms"),
    ]


def commit_request(group: str, partitions: range, offset: int) -> OffsetCommitRequest:
    items = [OffsetCommitRequestPartition(index, offset + index, 0, "") for index in partitions]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(TOPIC, partitions=items)])


def fetch_request(*groups: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=list(range(PARTITIONS)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=topics) for name in groups])


def measure_restart(directory: Path, scale: Scale) -> list[Figure]:
    names = [f"restart-{number}" for number in range(scale.offset_groups)]
    with broker(directory, "restart") as started, wire.connect(started.port) as connection:
        for number, name in enumerate(names):
            answer: OffsetCommitResponse = messages.ask(
                connection, COMMIT_VERSION, commit_request(name, range(PARTITIONS), number)
            )
            assert not any(partition.error_code for partition in answer.topics[0].partitions)
    begun = time.perf_counter()
    with running(start_broker(directory / "restart", SETTINGS)) as started:
        accepting_s = time.perf_counter() - begun
        with wire.connect(started.port) as connection:
            refusals, wrong = watch_loading(connection, names)
            loaded_s, cpu_s = time.perf_counter() - begun, cpu_seconds(started.pid)
            wrong += sum(not is_right(connection, name, number) for number, name in enumerate(names))
    if wrong:
        raise AssertionError(f"{wrong} answers were wrong after the restart")
    what = f"restart with {scale.offset_groups * PARTITIONS:,} offsets"
    return [
        Figure(f"{what}: process start to first connection", accepting_s, "s"),
        Figure(f"{what}: process start to last shard served", loaded_s, "s", limit=2),
        Figure(f"{what}: broker CPU until then", cpu_s, "s"),
        Figure(f"{what}: COORDINATOR_LOAD_IN_PROGRESS until then", refusals, "answers"),
        Figure(f"{what}: wrong or missing offsets", wrong, "answers", limit=1),
    ]


def watch_loading(connection: socket.socket, names: list[str]) -> tuple[int, int]:
    """Ask a group of every shard until all answer; how often a shard said that it loads, or something
    wrong.
    """
    waiting = {partition_for(name, SHARDS): (number, name) for number, name in enumerate(names)}
    refusals = wrong = 0
    while waiting:
        for shard, (number, name) in list(waiting.items()):
            group = messages.ask(connection, FETCH_VERSION, fetch_request(name)).groups[0]
            if group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                refusals += 1
            else:
                found = [partition.committed_offset for partition in group.topics[0].partitions]
                wrong += group.error_code != 0 or found != expected_offsets(number)
                del waiting[shard]
        time.sleep(0.005)  # a core is the broker's, not ours
    return refusals, wrong


def is_right(connection: socket.socket, name: str, number: int) -> bool:
    group = messages.ask(connection, FETCH_VERSION, fetch_request(name)).groups[0]
    return [found.committed_offset for found in group.topics[0].partitions] == expected_offsets(number)


def expected_offsets(number: int) -> list[int]:
    return [number + index for index in range(PARTITIONS)]


def measure_commits(directory: Path, scale: Scale) -> list[Figure]:
    with broker(directory, "commits") as started:
        return [
            figure
            for partitions, in_flight in itertools.product((1, 10), (IN_FLIGHT, 1))
            for figure in commits(started, partitions, in_flight, scale.commits)
        ]


def commits(started: BrokerProcess, partitions: int, in_flight: int, count: int) -> list[Figure]:
    """Commit again and again for the same few groups, as consumers do."""
    requests = [commit_request(f"commits-{n % 100}", range(partitions), n) for n in range(count)]
    frames = [
        frame(RequestHeader(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, n, "bench"), request)
        for n, request in enumerate(requests)
    ]
    with wire.connect(started.port) as connection:
        answer_bytes = len(wire.ask(connection, frames[0])) + 8  # with its size and correlation id
    watch = Stopwatch(started.pid)
    with watch:
        pipelined(started.port, frames, in_flight, answer_bytes)
    what = f"OffsetCommit of {partitions}, {in_flight} in flight"
    return [
        Figure(f"{what}: commits", count / watch.seconds, "per s"),
        Figure(f"{what}: broker CPU", 1e6 * watch.cpu_seconds / count, "µs"),
    ]


MEASUREMENTS: dict[str, Callable[[Path, Scale], list[Figure]]] = {
    "heartbeats": measure_heartbeats,
    "rebalance": measure_rebalance,
    "restart": measure_restart,
    "commits": measure_commits,
}


def write(figures: list[Figure], command: str, facts: list[str]) -> None:
    """Keep the results beside the code that made them."""
    lines = [
        "# What groups cost",
        "",
        f"Made by `{command}`. How each figure is taken stands in `bench/groups.py`; `broker CPU` is user and system",
        'time of all its threads. Asked is the row "groups" of the [table of targets](../docs/benchmarks.md#targets).',
        "",
        *facts,
        "",
        *table(figures),
        "",
    ]
    RESULTS.write_text("\n".join(lines))


def main() -> int:
    run = Run("groups", "Measure consumer groups.", MEASUREMENTS, Scale(), QUICK, write)
    return run.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
