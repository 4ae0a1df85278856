"""Three brokers beside three Apache Kafka nodes: `python -m bench.cluster`.

    python -m bench.cluster                     everything, five rounds, writes bench/RESULTS_CLUSTER.md
    python -m bench.cluster --quick             a tenth of everything, one round: is it still alive?
    python -m bench.cluster --only paced        workloads whose name contains this (repeatable)
    python -m bench.cluster --targets ottla     without Apache Kafka

Both clusters run all the time and take turns within a round. Replication factor 3, min.insync.replicas=2, six
partitions; the same client for both (bench/cluster_client.py) with acks=all and idempotence. CPU is that of
the three brokers together. Each run has a topic of its own, which is deleted afterwards, so that the disk's
work for one does not fall on the next.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.apache.maven import CannotFetchError
from bench.cluster_client import ClusterResult
from bench.failover_targets import Cluster, apache, ottla
from bench.memory import WarmPages
from bench.processes import Stopwatch, memory_mebibytes
from bench.report import TARGETS_NOTE, figures_table, machine, verdicts_table
from bench.targets import KAFKA_OPTIONS
from bench.verdicts import Target
from bench.workloads import Figures, client_answer

RESULTS: Final = Path(__file__).with_name("RESULTS_CLUSTER.md")
SOURCE: Final = Path(__file__).resolve().parents[1] / "src"
NAMES: Final = ("ottla", "apache")
ASKED: Final = "cluster"  # rows of the table of targets in docs/benchmarks.md
OWN: Final = "own"
PARTITIONS: Final = 6
RECORDS: Final = {100: 1_000_000, 1024: 200_000}
RATES: Final = (200, 2_000)
PACED_SECONDS: Final = 10
PACED_BYTES: Final = 100
IDLE_SECONDS: Final = 5.0
QUICK_SCALE: Final = 0.1
WARM_UP_SCALE: Final = 0.5
WARM_BYTES: Final = 1_000_000_000
NEEDED_BYTES: Final = 20_000_000_000
# A deleted topic's files go at once in both.
TOPIC_SETTINGS: Final = {"file.delete.delay.ms": "1000"}

Values = dict[str, dict[str, dict[str, list[float]]]]


@dataclass(frozen=True, slots=True)
class Run:
    """Which round, and how much of everything."""

    number: int
    scale: float
    written: set[tuple[str, str]]

    def some(self, amount: int) -> int:
        return max(10, int(amount * self.scale))


@dataclass(frozen=True, slots=True)
class Workload:
    """A named measurement."""

    name: str
    measure: Callable[[Cluster, Run], Figures]
    moves_much: bool = False


def client(cluster: Cluster, work: str, topic: str, **options: object) -> ClusterResult:
    """Run the client against a cluster."""
    where = {"bootstrap": cluster.bootstrap, "broker-pid": cluster.pids(), "topic": topic}
    answer = client_answer("bench.cluster_client", work, {**where, "partitions": PARTITIONS, **options})
    return ClusterResult(**answer)


@contextlib.contextmanager
def topic_of(cluster: Cluster, name: str) -> Iterator[str]:
    """A topic for the length of a block."""
    create(cluster, name)
    try:
        yield name
    finally:
        cluster.delete_topic(name)


def create(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, PARTITIONS, settings=TOPIC_SETTINGS)
    cluster.await_in_sync(name)


def moved(result: ClusterResult) -> Figures:
    return {
        "krec_per_s": result.records / result.seconds / 1e3,
        "mb_per_s": result.bytes / result.seconds / 1e6,
        "cpu_s_per_gb": result.broker_cpu_seconds / result.bytes * 1e9,
    }


def produce(cluster: Cluster, run: Run, size: int) -> Figures:
    with topic_of(cluster, f"produce-{size}-{run.number}") as topic:
        return moved(client(cluster, "produce", topic, records=run.some(RECORDS[size]), size=size))


def consume(cluster: Cluster, run: Run, size: int) -> Figures:
    """Both clusters have the same batches to give; they are written once."""
    topic, records = f"consume-{size}-{run.scale}", run.some(RECORDS[size])
    if (cluster.name, topic) not in run.written:
        create(cluster, topic)
        client(cluster, "fill", topic, records=records, size=size)
        run.written.add((cluster.name, topic))
    return moved(client(cluster, "consume", topic, records=records, size=size))


def paced(cluster: Cluster, run: Run, rate: int) -> Figures:
    with topic_of(cluster, f"paced-{rate}-{run.number}") as topic:
        records = run.some(rate * PACED_SECONDS)
        result = client(cluster, "paced", topic, records=records, size=PACED_BYTES, rate=rate)
    return {
        "p50_ms": result.p50_ms,
        "p99_ms": result.p99_ms,
        "p999_ms": result.p999_ms,
        "cpu_us_per_record": result.broker_cpu_seconds / result.records * 1e6,
    }


def idle(cluster: Cluster, run: Run) -> Figures:
    """What three brokers cost that have nothing to do but to look after each other."""
    with Stopwatch(*cluster.pids()) as watch:
        time.sleep(IDLE_SECONDS * min(1.0, run.scale))
    sizes = [memory_mebibytes(pid) for pid in cluster.pids()]
    return {
        "cpu_percent": watch.cpu_seconds / watch.seconds * 100,
        "resident_mib": sum(resident for resident, _ in sizes),
        "proportional_mib": sum(proportional for _, proportional in sizes),
    }


def paced_name(rate: int) -> str:
    return f"paced {rate} records/s"


WORKLOADS: Final = (
    *(Workload(f"produce {size} B", partial(produce, size=size), moves_much=True) for size in RECORDS),
    *(Workload(paced_name(rate), partial(paced, rate=rate)) for rate in RATES),
    *(Workload(f"consume {size} B", partial(consume, size=size), moves_much=True) for size in RECORDS),
    Workload("idle", idle),
)


def promise(workload: str, figure: str, *, at_most: bool, name_in_docs: str) -> Target:
    return Target(workload, figure, 1.0, at_most=at_most, peer="apache", name_in_docs=name_in_docs)


PROMISES: Final = (
    *(promise(f"produce {size} B", "krec_per_s", at_most=False, name_in_docs=ASKED) for size in RECORDS),
    *(promise(paced_name(rate), "p99_ms", at_most=True, name_in_docs=ASKED) for rate in RATES),
    *(promise(paced_name(rate), "p50_ms", at_most=True, name_in_docs=OWN) for rate in RATES),
    *(promise(f"consume {size} B", "krec_per_s", at_most=False, name_in_docs=OWN) for size in RECORDS),
    *(promise(f"produce {size} B", "cpu_s_per_gb", at_most=True, name_in_docs=OWN) for size in RECORDS),
    promise("idle", "proportional_mib", at_most=True, name_in_docs=OWN),
)


@contextlib.contextmanager
def started(names: Sequence[str], directory: Path) -> Iterator[list[Cluster]]:
    """The chosen clusters, running; stopped at the end. Kafka's nodes have the memory that its own script
    gives them.
    """
    with contextlib.ExitStack() as stack:
        clusters = []
        for name in names:
            starting = ottla(directory / name)
            if name == "apache":
                starting = apache(directory / name, options=KAFKA_OPTIONS)
            clusters.append(stack.enter_context(starting))
        yield clusters


def measure(
    workloads: Sequence[Workload],
    clusters: Sequence[Cluster],
    run: Run,
    pages: WarmPages,
    values: Values | None,
) -> None:
    """One round: each workload on each cluster in turn, another one first each time; a warm-up keeps no
    values.
    """
    first = run.number % len(clusters)
    for workload in workloads:
        for cluster in [*clusters[first:], *clusters[:first]]:
            if workload.moves_much:
                pages.keep()
                pages.release()
            figures = workload.measure(cluster, run)
            if values is None:
                continue
            words = "  ".join(f"{name} {value:.3g}" for name, value in figures.items())
            print(f"  {run.number}  {workload.name:20} {cluster.name:8} {words}", flush=True)
            kept = values.setdefault(workload.name, {}).setdefault(cluster.name, {})
            for name, value in figures.items():
                kept.setdefault(name, []).append(value)


def run_all(chosen: argparse.Namespace, directory: Path) -> Values:
    """Start everything, warm it up, measure round after round."""
    workloads = [
        each for each in WORKLOADS if not chosen.only or any(part in each.name for part in chosen.only)
    ]
    values, written = Values(), set[tuple[str, str]]()
    scale, rounds = (QUICK_SCALE, 1) if chosen.quick else (1.0, chosen.runs)
    pages = WarmPages(directory, int(WARM_BYTES * scale))
    with started(chosen.targets.split(","), directory) as clusters:
        if not chosen.quick and not chosen.cold:
            print("warming up", flush=True)
            warm_up = [workload for workload in workloads if workload.name != "idle"]
            measure(warm_up, clusters, Run(0, WARM_UP_SCALE, written), pages, None)
        for number in range(1, rounds + 1):
            measure(workloads, clusters, Run(number, scale, written), pages, values)
    return values


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything in one round; no results")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads with this")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="rounds (default: 5)")
    parser.add_argument("--targets", default=",".join(NAMES), help="comma-separated (default: both)")
    parser.add_argument("--cold", action="store_true", help="no warm-up: for who looks at Ottla alone")
    parser.add_argument("--directory", type=Path, help="where the data goes (default: a temporary one)")
    chosen = parser.parse_args()
    unknown = set(chosen.targets.split(",")) - set(NAMES)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return chosen


def page(values: Values, rounds: int, facts: Sequence[str]) -> list[str]:
    return [
        "# Three brokers beside three Apache Kafka nodes",
        "",
        f"Made by `{shlex.join(['python', '-m', 'bench.cluster', *sys.argv[1:]])}`: {rounds} rounds, the clusters taking turns within each;",
        "medians, with the smallest and largest round in brackets. Replication factor 3, `min.insync.replicas=2`, six partitions; confluent-kafka with",
        "acks=all and idempotence. Compare only within this page. Records: all values alike, without keys, headers or compression.",
        "",
        *facts,
        "",
        "## The ratios to hold",
        "",
        TARGETS_NOTE,
        "",
        *verdicts_table(values, promises=PROMISES),
        "",
        "## Everything",
        "",
        "`cpu…` is the CPU time of the three brokers together, and so is `…_mib`. `paced`: single records of 100 bytes,",
        "from `produce` to the delivery report.",
        "",
        *figures_table(values),
        "",
    ]


def main() -> int:
    chosen = options()
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    directory.mkdir(parents=True, exist_ok=True)
    needed = NEEDED_BYTES // 10 if chosen.quick else NEEDED_BYTES
    if shutil.disk_usage(directory).free < needed:
        print(f"{directory} has less than the {needed / 1e9:.0f} GB that this needs", file=sys.stderr)
        return 2
    compileall.compile_dir(str(SOURCE), quiet=1)
    facts = machine()
    try:
        values = run_all(chosen, directory)
    except CannotFetchError as reason:
        print(f"{reason}\nWithout it: --targets ottla", file=sys.stderr)
        return 2
    finally:
        if chosen.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
    lines = page(values, 1 if chosen.quick else chosen.runs, facts)
    print("\n".join(["", *lines]))
    if not (chosen.quick or chosen.only or chosen.cold) and chosen.targets == ",".join(NAMES):
        RESULTS.write_text("\n".join(lines), encoding="utf-8")
        print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
