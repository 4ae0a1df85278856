"""Measures how long writes are interrupted when a broker goes, beside Apache Kafka: `python -m
bench.failover`.

For each cluster of three, again and again: the leader of a partition is killed (kill -9), once a broker that
is only that, once the one that is the controller too; then one is stopped (SIGTERM). The interruption is the
longest time without an acknowledgement of acks=all. Then 1,000 partitions: a broker that leads a third of
them is killed, until each of those was written to again; and how long it takes until every broker knows of a
new topic. Writes bench/RESULTS_FAILOVER.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.apache.maven import CannotFetchError
from bench.failover_probes import LibrdkafkaWriter, RawWriter, longest_gap_s, write_everywhere
from bench.failover_targets import NAMES, STARTERS, Cluster
from bench.report import machine, table

RESULTS: Final = Path(__file__).with_name("RESULTS_FAILOVER.md")
TOPIC: Final = "failover"
MANY: Final = "many"
_BEFORE_S: Final = 0.7  # of undisturbed writes
_PROMISED_S: Final = {
    "kill -9 a leader": 1.5,
    "kill -9 a leader that is the controller": 1.5,
    "SIGTERM a leader": 0.2,
    "SIGTERM a leader that is the controller": 0.2,
}

Measured = dict[str, dict[str, list[float]]]  # what → cluster → seconds


def measure(cluster: Cluster, rounds: int, found: Measured) -> None:
    """All interruptions of one cluster."""
    cluster.create_topic(TOPIC, 6)
    cluster.await_in_sync(TOPIC)
    for number in range(rounds):
        for what, stops in (("kill -9", False), ("SIGTERM", True)):
            for with_controller in (False, True):
                name = f"{what} a leader{' that is the controller' if with_controller else ''}"
                raw, client = _interruption(cluster, stops=stops, with_controller=with_controller)
                found[name][cluster.name].append(raw)
                found[f"{name} (librdkafka)"][cluster.name].append(client)
                print(
                    f"{cluster.name} round {number + 1}: {name}: {raw:.3f} s, librdkafka {client:.3f} s",
                    flush=True,
                )


def _interruption(cluster: Cluster, *, stops: bool, with_controller: bool) -> tuple[float, float]:
    partition, victim = _led_by(cluster, with_controller)
    end = cluster.stop if stops else cluster.kill
    with RawWriter(cluster, TOPIC, partition) as raw, LibrdkafkaWriter(cluster, TOPIC, partition) as client:
        cluster.await_that(lambda: all(len(each.acknowledged) > 50 for each in (raw, client)), "written to")
        time.sleep(_BEFORE_S)
        begun = time.monotonic()
        end(victim)
        cluster.await_that(lambda: _goes_on(raw, begun) and _goes_on(client, begun), "written to again")
        over = time.monotonic()
        cluster.start(victim)
        cluster.await_in_sync(TOPIC)
    cluster.prefer_leaders()
    return longest_gap_s(raw.acknowledged, begun, over), longest_gap_s(client.acknowledged, begun, over)


def _goes_on(writer: RawWriter | LibrdkafkaWriter, begun: float) -> bool:
    """Whether it has been writing for a while since."""
    return (
        bool(writer.acknowledged)
        and writer.acknowledged[-1] > begun + 0.3
        and len([each for each in writer.acknowledged[-50:] if each > begun + 0.1]) >= 20
    )


def _led_by(cluster: Cluster, with_controller: bool) -> tuple[int, int]:
    """A partition whose leader is the controller, or is not; leaders are moved by what was done before, so it
    may take a while.
    """
    found: list[tuple[int, int]] = []

    def is_found() -> bool:
        controller = cluster.controller()
        found[:] = [
            (each.partition_index, each.leader_id)
            for each in cluster.topic(TOPIC).partitions
            if (each.leader_id == controller) == with_controller and each.leader_id >= 0
        ]
        return bool(found)

    cluster.await_that(is_found, "led as wanted")
    return found[0]


def measure_many(cluster: Cluster, partitions: int, rounds: int, found: Measured) -> None:
    """A third of many partitions fails over; a new topic becomes known."""
    begun = time.monotonic()
    cluster.create_topic(MANY, partitions)
    cluster.await_in_sync(MANY)
    found[f"create {partitions} partitions"][cluster.name].append(time.monotonic() - begun)
    for number in range(rounds):
        victim = sorted(cluster.ports)[number % len(cluster.ports)]
        led = {each.partition_index for each in cluster.topic(MANY).partitions if each.leader_id == victim}
        taken, begun = _fail_over(cluster, victim, led)
        found[f"kill -9 the leader of a third of {partitions} partitions: the last written to"][
            cluster.name
        ].append(max(taken, default=begun) - begun)
        print(
            f"{cluster.name}: {len(led)} partitions of {partitions} in {max(taken, default=begun) - begun:.3f} s",
            flush=True,
        )
        cluster.start(victim)
        cluster.await_in_sync(MANY)
        cluster.prefer_leaders()
        for again in range(5):
            seconds = _propagation(cluster, f"new-{number}-{again}")
            found["a new topic is known to every broker"][cluster.name].append(seconds)
    print(
        f"{cluster.name}: a new topic known everywhere after {median(found['a new topic is known to every broker'][cluster.name]):.3f} s",
        flush=True,
    )


def _fail_over(cluster: Cluster, victim: int, led: set[int]) -> tuple[list[float], float]:
    begun = time.monotonic()
    killer = threading.Thread(target=cluster.kill, args=(victim,))
    killer.start()
    killer.join()
    return write_everywhere(cluster, MANY, led), begun


def _propagation(cluster: Cluster, topic: str) -> float:
    """From the request until the last broker tells clients of the topic and its leader."""
    known: dict[int, float] = {}

    def watch(node_id: int) -> None:
        while not any(each.leader_id >= 0 for each in cluster.topic_at(node_id, topic).partitions):
            time.sleep(0.001)
        known[node_id] = time.monotonic()

    watchers = [threading.Thread(target=watch, args=(node_id,)) for node_id in cluster.ports]
    begun = time.monotonic()
    for watcher in watchers:
        watcher.start()
    cluster.create_topic(topic, 1, next(iter(cluster.ports)))
    for watcher in watchers:
        watcher.join()
    return max(known.values()) - begun


def page(found: Measured, rounds: int, where: Sequence[str]) -> list[str]:
    names = [name for name in NAMES if any(name in by_cluster for by_cluster in found.values())]
    rows = []
    for what, by_cluster in found.items():
        cells = [_spread(by_cluster.get(name, [])) for name in names]
        rows.append([what, *cells, _ratio(by_cluster), _promise(what, by_cluster.get("ottla", []))])
    return [
        "# Failover beside Apache Kafka",
        "",
        f"`python -m bench.failover --rounds {rounds}`. Three brokers each, settings as they come, replication factor 3, "
        "`min.insync.replicas=2`, acks=all; seconds, median (smallest to largest). Without a name in brackets the writer is one that asks again at once; "
        'librdkafka has its defaults. Promised is the row "failover" of the [table of targets](../docs/benchmarks.md#targets).',
        "",
        *where,
        "",
        *table(["what", *names, "times shorter", "promised"], rows),
        "",
    ]


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else "-"


def _ratio(by_cluster: dict[str, list[float]]) -> str:
    ours, theirs = by_cluster.get("ottla"), by_cluster.get("apache")
    return f"{median(theirs) / median(ours):.1f}" if ours and theirs and median(ours) else "-"


def _promise(what: str, values: Sequence[float]) -> str:
    limit = _PROMISED_S.get(what) or (
        3.0 if "third of" in what else 0.2 if "known to every" in what else None
    )
    if limit is None or not values:
        return "-"
    return f"{limit:g}: {'held' if median(values) <= limit else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--partitions", type=int, default=1000, help="0: leave that part out")
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--no-results", action="store_true", help="do not write RESULTS_FAILOVER.md")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and end the brokers, too
    where = machine()  # before this run keeps it busy
    found: Measured = defaultdict(lambda: defaultdict(list))
    for name in given.only or NAMES:
        with tempfile.TemporaryDirectory() as directory:
            try:
                with STARTERS[name](Path(directory) / name) as cluster:
                    measure(cluster, given.rounds, found)
                    if given.partitions:
                        measure_many(cluster, given.partitions, min(3, given.rounds), found)
            except CannotFetchError as reason:
                print(f"WITHOUT {name}: {reason}", flush=True)
    lines = page(found, given.rounds, where)
    print("\n".join(lines))
    if not given.no_results:
        RESULTS.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
