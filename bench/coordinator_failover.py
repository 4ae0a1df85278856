"""Measures how long a transaction coordinator is away when its broker is killed with many transactions open, beside
Apache Kafka: `python -m bench.coordinator_failover`.

    python -m bench.coordinator_failover                      10,000 open transactions, three rounds
    python -m bench.coordinator_failover --transactions 1000 --rounds 1 --only ottla

All transactions belong to one partition of `__transaction_state`, so that one broker coordinates all of them. The
broker is killed (kill -9); the coordinator is back when the broker that leads the partition then describes the first
transaction as open, and wholly back when it has described every one. Then a hundred are committed. Writes
bench/RESULTS_COORDINATOR_FAILOVER.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench import messages, wire
from bench.apache.maven import CannotFetchError
from bench.failover_targets import NAMES, STARTERS, Cluster
from bench.report import machine, table

from ottla.localcluster.ports import HOST
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.transaction_admin import DescribeTransactionsRequest
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
)
from ottla.server.coordinators.java_hash import partition_for
from ottla.wire.connection import Connection

RESULTS: Final = Path(__file__).with_name("RESULTS_COORDINATOR_FAILOVER.md")
TOPIC: Final = "coordinated"
STATE_TOPIC: Final = "__transaction_state"
STATE_PARTITIONS: Final = 50
TIMEOUT_MS: Final = 15 * 60_000
COMMITTED: Final = 100
DEADLINE_S: Final = 180.0
_AT_ONCE: Final = 200
_TRANSACTIONS_TYPE: Final = 1
_RETRIABLE: Final = frozenset({14, 15, 16, 51})

Measured = dict[str, dict[str, list[float]]]  # what → cluster → seconds


class Opened(NamedTuple):
    """An open transaction."""

    transactional_id: str
    producer_id: int
    epoch: int


def ids_of_one_partition(count: int, round_number: int) -> Iterator[str]:
    """Transactional ids that one partition of `__transaction_state` has."""
    number = 0
    while count:
        name = f"bench-{round_number}-{number}"
        number += 1
        if partition_for(name, STATE_PARTITIONS) == round_number % STATE_PARTITIONS:
            count -= 1
            yield name


def coordinator_of(cluster: Cluster, transactional_id: str) -> int | None:
    """The coordinator's node; None while nobody knows."""
    request = FindCoordinatorRequest(key_type=_TRANSACTIONS_TYPE, coordinator_keys=[transactional_id])
    for port in cluster.ports.values():
        with contextlib.suppress(OSError), wire.connect(port) as connection:
            (found,) = messages.ask(connection, 4, request).coordinators
            if found.error_code == 0:
                node_id: int = found.node_id
                return node_id
    return None


async def open_all(cluster: Cluster, node_id: int, ids: Sequence[str]) -> list[Opened]:
    """Begin a transaction of each id, with one partition in it."""
    async with await Connection.open(HOST, cluster.ports[node_id], timeout_ms=60_000) as connection:
        opened: list[Opened] = []
        for begin in range(0, len(ids), _AT_ONCE):
            opened += await asyncio.gather(
                *(_open(connection, each) for each in ids[begin : begin + _AT_ONCE])
            )
    return opened


async def _open(connection: Connection, transactional_id: str) -> Opened:
    made = await _until_done(connection, InitProducerIdRequest(transactional_id, TIMEOUT_MS), 4)
    one = Opened(transactional_id, made.producer_id, made.producer_epoch)
    topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=one.producer_id,
        v3_and_below_producer_epoch=one.epoch,
        v3_and_below_topics=topics,
    )

    def code(answer: Any) -> int:
        found: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return found

    await _until_done(connection, request, 3, code)
    return one


async def _until_done(
    connection: Connection,
    request: Any,
    version: int,
    code_of: Callable[[Any], int] = lambda answer: answer.error_code,
) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        answer = await connection.ask(request, version)
        code = code_of(answer)
        if not code:
            return answer
        if code not in _RETRIABLE or time.monotonic() > deadline:
            raise AssertionError(f"{type(request).__name__}: error {code}")
        await asyncio.sleep(0.02)


async def described(cluster: Cluster, node_id: int, ids: Sequence[str]) -> int:
    """How many of these transactions the node describes as open."""
    async with await Connection.open(HOST, cluster.ports[node_id], timeout_ms=30_000) as connection:
        answer = await connection.ask(DescribeTransactionsRequest(list(ids)), 0)
    return sum(
        each.error_code == 0 and each.transaction_state == "Ongoing" for each in answer.transaction_states
    )


async def commit(cluster: Cluster, node_id: int, transactions: Sequence[Opened]) -> None:
    async with await Connection.open(HOST, cluster.ports[node_id], timeout_ms=60_000) as connection:
        for one in transactions:
            request = EndTxnRequest(one.transactional_id, one.producer_id, one.epoch, committed=True)
            await _until_done(connection, request, 3)


def measure(cluster: Cluster, count: int, rounds: int, found: Measured) -> None:
    """Kill the coordinator of so many open transactions, again and again."""
    cluster.create_topic(TOPIC, 1)
    for number in range(rounds):
        ids = list(ids_of_one_partition(count, number))
        cluster.await_that(lambda: coordinator_of(cluster, ids[0]) is not None, "coordinated")  # noqa: B023
        victim = coordinator_of(cluster, ids[0])
        assert victim is not None
        begun = time.monotonic()
        opened = asyncio.run(open_all(cluster, victim, ids))
        found["open all, one connection"][cluster.name].append(time.monotonic() - begun)
        cluster.await_in_sync(STATE_TOPIC)
        _fail_over(cluster, victim, opened, found)
        cluster.start(victim)
        cluster.await_in_sync(STATE_TOPIC)
        cluster.prefer_leaders()
        latest = {what: values[cluster.name][-1] for what, values in found.items()}
        print(f"{cluster.name} round {number + 1}: {latest}", flush=True)


def _fail_over(cluster: Cluster, victim: int, opened: Sequence[Opened], found: Measured) -> None:
    ids = [each.transactional_id for each in opened]
    begun = time.monotonic()
    cluster.kill(victim)
    node_id = _await_open(cluster, victim, ids[:1])
    found["until the first is described"][cluster.name].append(time.monotonic() - begun)
    for begin in range(0, len(ids), 500):
        _await_open(cluster, victim, ids[begin : begin + 500])
    found["until all are described"][cluster.name].append(time.monotonic() - begun)
    committed = time.monotonic()
    asyncio.run(commit(cluster, node_id, opened[:COMMITTED]))
    found[f"then {COMMITTED} commits, one after the other"][cluster.name].append(time.monotonic() - committed)


def _await_open(cluster: Cluster, victim: int, ids: Sequence[str]) -> int:
    """The node that describes all of these transactions as open, once one does."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        node_id = coordinator_of(cluster, ids[0])
        with contextlib.suppress(OSError):
            if node_id not in (None, victim) and asyncio.run(described(cluster, node_id or 0, ids)) == len(
                ids
            ):
                return node_id or 0
        time.sleep(0.01)
    raise AssertionError(f"{cluster.name}: nobody coordinates after {DEADLINE_S:.0f} s")


def page(found: Measured, count: int, rounds: int, where: Sequence[str]) -> list[str]:
    names = [name for name in NAMES if any(name in by_cluster for by_cluster in found.values())]
    rows = []
    for what, by_cluster in found.items():
        cells = [_spread(by_cluster.get(name, [])) for name in names]
        rows.append([what, *cells, _ratio(by_cluster)])
    return [
        "# Failover of a transaction coordinator beside Apache Kafka",
        "",
        f"`python -m bench.coordinator_failover --transactions {count} --rounds {rounds}`. Three brokers each, settings as they "
        f"come, {count:,} open transactions in one partition of `__transaction_state`, whose leader is killed (kill -9); "
        "seconds, median (smallest to largest).",
        "",
        *where,
        "",
        *table(["what", *names, "times shorter"], rows),
        "",
    ]


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else "-"


def _ratio(by_cluster: dict[str, list[float]]) -> str:
    ours, theirs = by_cluster.get("ottla"), by_cluster.get("apache")
    return f"{median(theirs) / median(ours):.1f}" if ours and theirs and median(ours) else "-"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--no-results", action="store_true", help="do not write the page")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and end the brokers, too
    where = machine()  # before this run keeps it busy
    found: Measured = defaultdict(lambda: defaultdict(list))
    for name in given.only or NAMES:
        with tempfile.TemporaryDirectory() as directory:
            try:
                with STARTERS[name](Path(directory) / name) as cluster:
                    measure(cluster, given.transactions, given.rounds, found)
            except CannotFetchError as reason:
                print(f"WITHOUT {name}: {reason}", flush=True)
    lines = page(found, given.transactions, given.rounds, where)
    print("\n".join(lines))
    if not given.no_results:
        RESULTS.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
