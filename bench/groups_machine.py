"""Measures the group coordinator's machine alone: no sockets, no log, no event loop.

    .venv/bin/python bench/groups_machine.py [--profile]

1,000 groups of 10 members heartbeat; one group of 100 members rebalances; offsets are committed, and loaded
again. Prints the median of several rounds of CPU time. Nothing is asserted: the targets stand beside.
"""

import argparse
import cProfile
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count

from ottla.config import GroupConfig
from ottla.group.coordinator import Decision, GroupCoordinator, GroupRequestContext
from ottla.group.records import GroupRecord
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ROUNDS = 7
GROUPS = 1_000
MEMBERS = 10
LARGE_GROUP = 100
OFFSETS = 100_000
NOW_MS = 1_700_000_000_000
CONTEXT = GroupRequestContext(3, "client", "/127.0.0.1", 0)
SUBSCRIPTION = bytes.fromhex("0001000000010006") + b"orders" + bytes.fromhex("ffffffff00000000")
SHARE = bytes(40)  # as long as a dozen partitions


class Machine:
    """A coordinator whose decisions are in force at once."""

    def __init__(self) -> None:
        numbers = count()
        self.coordinator = GroupCoordinator(
            GroupConfig(initial_rebalance_delay_ms=0), lambda name: f"{name}-{next(numbers)}"
        )
        self.coordinator.loaded(NOW_MS)
        self.log: list[GroupRecord] = []

    def ask(self, request: object, now_ms: int = NOW_MS) -> Decision:
        decision = self.coordinator.command(request, CONTEXT, now_ms)
        for record in decision.records:
            self.coordinator.replay(*record)
        self.log += decision.records
        return decision

    def join(self, group_id: str, member_id: str = "") -> Decision:
        protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
        return self.ask(JoinGroupRequest(group_id, 45_000, 300_000, member_id, None, "consumer", protocols))

    def form(self, group_id: str, size: int) -> None:
        """A stable group: the first member is alone, the others make it rebalance once."""
        for _ in range(size):
            self.join(group_id)
        if size > 1:
            self.join(group_id, next(iter(self.coordinator.groups[group_id].members)))
        self.sync(group_id)

    def sync(self, group_id: str) -> None:
        group = self.coordinator.groups[group_id]
        shares = [SyncGroupRequestAssignment(member_id, SHARE) for member_id in group.members]
        for member_id in reversed(list(group.members)):
            given = shares if member_id == group.leader else []
            self.ask(SyncGroupRequest(group_id, group.generation, member_id, assignments=given))


def median_seconds(work: Callable[[], None]) -> float:
    """CPU seconds of one round."""
    spent = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return statistics.median(spent)


def heartbeats(machine: Machine) -> Iterator[HeartbeatRequest]:
    """One of each member."""
    for group_id, group in machine.coordinator.groups.items():
        for member_id in group.members:
            yield HeartbeatRequest(group_id, group.generation, member_id)


def measure_heartbeats() -> str:
    machine = Machine()
    for number in range(GROUPS):
        machine.form(f"group-{number}", MEMBERS)
    requests = list(heartbeats(machine))
    clock = count(NOW_MS, 3_000)

    def round_of_heartbeats() -> None:
        now_ms = next(clock)
        command = machine.coordinator.command
        for request in requests:
            command(request, CONTEXT, now_ms)
        for _ in machine.coordinator.tick(now_ms):
            raise AssertionError("a member that heartbeats was given up")

    per_heartbeat = median_seconds(round_of_heartbeats) / len(requests)
    share = per_heartbeat * len(requests) / 3
    return (
        f"heartbeat, {GROUPS} groups of {MEMBERS} members: {per_heartbeat * 1e6:.2f} µs (target 3), deadlines included; "
        f"all of them every 3 s: {share:.1%} of a core"
    )


def measure_rebalance() -> str:
    machine = Machine()
    machine.form("large", LARGE_GROUP)
    ids = list(machine.coordinator.groups["large"].members)

    def rebalance() -> None:
        for member_id in ids:
            machine.join("large", member_id)
        machine.sync("large")

    seconds = median_seconds(rebalance)
    assert machine.coordinator.groups["large"].state.value == "Stable"
    return f"rebalance of {LARGE_GROUP} members, joins and syncs: {seconds * 1e3:.1f} ms"


def measure_offsets() -> str:
    machine = Machine()
    requests = [
        OffsetCommitRequest(
            f"group-{number % 100}",
            topics=[
                OffsetCommitRequestTopic(
                    "orders", partitions=[OffsetCommitRequestPartition(number // 100, number, 0, "")]
                )
            ],
        )
        for number in range(OFFSETS)
    ]
    begin = time.process_time()
    for request in requests:
        machine.ask(request)
    commit = (time.process_time() - begin) / OFFSETS

    def load() -> None:
        coordinator = GroupCoordinator(GroupConfig(), str)
        for record in machine.log:
            coordinator.replay(*record)
        coordinator.loaded(NOW_MS)

    seconds = median_seconds(load)
    return (
        f"commit of one offset, replay included: {commit * 1e6:.1f} µs\n"
        f"load of {OFFSETS:,} offsets: {seconds:.2f} s (target 2, with the log's part)"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description="Measure the group coordinator's machine.")
    arguments.add_argument("--profile", action="store_true", help="also show where the time goes")
    for measure in (measure_heartbeats, measure_rebalance, measure_offsets):
        print(measure())
    if arguments.parse_args().profile:
        cProfile.runctx("measure_offsets(); measure_rebalance()", globals(), {}, sort="tottime")


if __name__ == "__main__":
    main()
