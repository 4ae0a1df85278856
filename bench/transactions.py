"""Transactions beside Apache Kafka: `python -m bench.transactions`.

    python -m bench.transactions                      one broker, then three; writes bench/RESULTS_TRANSACTIONS.md
    python -m bench.transactions --quick              a tenth of everything, one round: is it still alive?
    python -m bench.transactions --brokers 1          one broker only
    python -m bench.transactions --only "100 records" workloads whose name contains this (repeatable)
    python -m bench.transactions --targets ottla      without Apache Kafka

Both brokers run all the time and take turns within a round, each with the same client and the same records
(`bench/transaction_clients.py`, `bench/mixed_records.py`: keys, sizes from 60 to 900 bytes, headers, lz4).
Every measurement is a client process of its own. CPU is that of the brokers, all together.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench import failover_targets
from bench.apache.maven import CannotFetchError
from bench.report import TARGETS_NOTE, figures_table, machine, verdicts_table
from bench.targets import Target as BrokerTarget
from bench.targets import started
from bench.verdicts import Target
from bench.workloads import client_answer

from ottla import NewTopic
from ottla.blocking import Admin

RESULTS: Final = Path(__file__).with_name("RESULTS_TRANSACTIONS.md")
SOURCE: Final = Path(__file__).resolve().parents[1] / "src"
NAMES: Final = ("ottla", "apache")
CLIENTS: Final = ("confluent-kafka", "ottla")
ASKED: Final = "transactions"  # the row of the table of targets in docs/benchmarks.md
ROUNDS: Final = 5
QUICK_SCALE: Final = 0.1
WARM_UP_SCALE: Final = 0.5
SHAPES: Final = ((1, 1), (1, 10), (100, 1), (100, 10))  # records in a transaction, partitions that they go to
TRANSACTIONS: Final = 200
READ_PARTITIONS: Final = 6
READ_TRANSACTIONS: Final = 2_000  # of a hundred records
READ_RECORDS: Final = 100
ABORTED_EVERY: Final = 10
COPY_RECORDS: Final = 500  # in a transaction, at most
COPY_TRANSACTIONS: Final = 30

Values = dict[str, dict[str, dict[str, list[float]]]]


@dataclass(frozen=True, slots=True)
class Site:
    """A broker, or a cluster, that is measured."""

    name: str
    bootstrap: str
    pids: Callable[[], list[int]]

    def create(self, topic: str, partitions: int) -> str:
        with Admin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, partitions=partitions)])
        return topic


@dataclass(frozen=True, slots=True)
class Run:
    """Which round, how much of everything, and which topics to read have been written."""

    number: int
    scale: float
    written: dict[tuple[str, str], int]

    def some(self, amount: int) -> int:
        return max(3, int(amount * self.scale))


@dataclass(frozen=True, slots=True)
class Workload:
    """A named measurement."""

    name: str
    measure: Callable[[Site, Run], dict[str, float]]


def client(site: Site, work: str, client: str, **options: object) -> dict[str, float]:
    where = {"client": client, "bootstrap": site.bootstrap, "broker-pid": site.pids()}
    return client_answer("bench.transaction_loads", work, {**where, **options})


def transactions(site: Site, run: Run, *, library: str, records: int, partitions: int) -> dict[str, float]:
    topic = site.create(f"transactions-{library}-{records}-{partitions}-{run.number}", partitions)
    size = {"partitions": partitions, "records": records, "transactions": run.some(TRANSACTIONS)}
    return client(site, "transactions", library, topic=topic, **size)


def idempotence(site: Site, run: Run, *, library: str) -> dict[str, float]:
    topic = site.create(f"idempotence-{library}-{run.number}", READ_PARTITIONS)
    size = {"partitions": READ_PARTITIONS, "records": 100, "transactions": run.some(TRANSACTIONS)}
    return client(site, "idempotence", library, topic=topic, **size)


def written(site: Site, run: Run, aborted_every: int) -> tuple[str, dict[str, int]]:
    """The topic that is read, and its size; written once."""
    topic = f"read-{aborted_every}"
    count = run.written.setdefault((site.name, topic), 0)
    if not count:
        count = run.written[site.name, topic] = run.some(READ_TRANSACTIONS)
        site.create(topic, READ_PARTITIONS)
        client(site, "fill", "ottla", topic=topic, **_read_size(count, aborted_every))
    return topic, _read_size(count, aborted_every)


def _read_size(transactions: int, aborted_every: int) -> dict[str, int]:
    size = {"partitions": READ_PARTITIONS, "records": READ_RECORDS, "transactions": transactions}
    return {**size, "aborted-every": aborted_every}


def read(site: Site, run: Run, *, library: str, aborted_every: int) -> dict[str, float]:
    topic, size = written(site, run, aborted_every)
    return client(site, "read", library, topic=topic, **size)


def copy(site: Site, run: Run, *, library: str) -> dict[str, float]:
    """The group is new in each round, and reads the same topic from its start."""
    topic, size = written(site, run, 0)
    transactions = run.some(COPY_TRANSACTIONS)
    # A few more are copied before the clock runs, and a transaction may have less than it could.
    most = size["transactions"] * READ_RECORDS // (2 * transactions + 4)
    output = site.create(f"copy-{library}-{run.number}", READ_PARTITIONS)
    wanted = {"partitions": READ_PARTITIONS, "records": min(COPY_RECORDS, most), "transactions": transactions}
    return client(site, "copy", library, topic=topic, output=output, **wanted)


def shape_name(library: str, records: int, partitions: int) -> str:
    return f"{library}: {_counted(records, 'record')}, {_counted(partitions, 'partition')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


WORKLOADS: Final = tuple(
    each
    for library in CLIENTS
    for each in (
        *(
            Workload(
                shape_name(library, records, partitions),
                partial(transactions, library=library, records=records, partitions=partitions),
            )
            for records, partitions in SHAPES
        ),
        Workload(f"{library}: 100 records, and idempotent", partial(idempotence, library=library)),
        Workload(f"{library}: consume, transform, produce", partial(copy, library=library)),
        Workload(f"{library}: read, all committed", partial(read, library=library, aborted_every=0)),
        Workload(
            f"{library}: read, a tenth aborted", partial(read, library=library, aborted_every=ABORTED_EVERY)
        ),
    )
)


def promise(
    workload: str, figure: str, limit: float, *, at_most: bool, peer: str | None = "apache"
) -> Target:
    return Target(workload, figure, limit, at_most=at_most, peer=peer, name_in_docs=ASKED)


def promises_of(library: str) -> Iterator[Target]:
    """At least Kafka's speed for at most 0.7 of its CPU; a committed reader within 5 % of another."""
    for records, partitions in SHAPES:
        name = shape_name(library, records, partitions)
        yield promise(name, "transactions_per_s", 1.0, at_most=False)
        yield promise(name, "p50_ms", 1.0, at_most=True)
        yield promise(name, "p99_ms", 1.0, at_most=True)
        yield promise(name, "cpu_ms_per_transaction", 0.7, at_most=True)
    name = f"{library}: 100 records, and idempotent"
    yield promise(name, "share_of_idempotent", 1.0, at_most=False)
    name = f"{library}: consume, transform, produce"
    yield promise(name, "krec_per_s", 1.0, at_most=False)
    yield promise(name, "cpu_us_per_record", 0.7, at_most=True)
    for kind in ("all committed", "a tenth aborted"):
        name = f"{library}: read, {kind}"
        yield promise(name, "share_of_uncommitted", 0.95, at_most=False, peer=None)
        yield promise(name, "committed_krec_per_s", 1.0, at_most=False)
        yield promise(name, "cpu_us_per_record", 0.7, at_most=True)


PROMISES: Final = tuple(target for library in CLIENTS for target in promises_of(library))


def _pid(target: BrokerTarget) -> list[int]:
    return [target.pid]


@contextlib.contextmanager
def sites(names: Sequence[str], directory: Path, brokers: int) -> Iterator[list[Site]]:
    """The chosen brokers, or clusters of three, running; stopped at the end."""
    with contextlib.ExitStack() as stack:
        if brokers == 1:
            targets = stack.enter_context(started(names, directory))
            yield [Site(each.name, f"127.0.0.1:{each.port}", partial(_pid, each)) for each in targets]
            return
        clusters = [
            stack.enter_context(failover_targets.STARTERS[name](directory / f"{name}-cluster"))
            for name in names
        ]
        yield [Site(each.name, each.bootstrap, each.pids) for each in clusters]


def measure(workloads: Sequence[Workload], places: Sequence[Site], run: Run, values: Values | None) -> None:
    """One round: each workload at each site in turn, another one first each time; a warm-up keeps no values."""
    first = run.number % len(places)
    for workload in workloads:
        for site in [*places[first:], *places[:first]]:
            figures = workload.measure(site, run)
            if values is None:
                continue
            words = "  ".join(f"{name} {value:.3g}" for name, value in figures.items())
            print(f"  {run.number}  {workload.name:44} {site.name:8} {words}", flush=True)
            kept = values.setdefault(workload.name, {}).setdefault(site.name, {})
            for name, value in figures.items():
                kept.setdefault(name, []).append(value)


def run_all(chosen: argparse.Namespace, directory: Path, brokers: int) -> Values:
    """Start everything, warm it up, measure round after round."""
    workloads = [
        each for each in WORKLOADS if not chosen.only or any(part in each.name for part in chosen.only)
    ]
    values, topics = Values(), dict[tuple[str, str], int]()
    scale, rounds = (QUICK_SCALE, 1) if chosen.quick else (1.0, chosen.runs)
    with sites(chosen.targets.split(","), directory, brokers) as places:
        if not chosen.quick:
            print(f"{brokers} of each: warming up", flush=True)
            measure(workloads, places, Run(0, WARM_UP_SCALE, topics), None)
        for number in range(1, rounds + 1):
            measure(workloads, places, Run(number, scale, topics), values)
    return values


def section(brokers: int, values: Values, load: str) -> list[str]:
    heading = "One broker" if brokers == 1 else "Three brokers"
    return [
        f"## {heading}: the ratios to hold",
        "",
        load,
        "",
        *verdicts_table(values, promises=PROMISES, everything=False),
        "",
        f"## {heading}: everything",
        "",
        *figures_table(values),
        "",
    ]


def page(sections: Sequence[Sequence[str]], rounds: int, facts: Sequence[str]) -> str:
    return "\n".join(
        [
            "# Transactions beside Apache Kafka",
            "",
            f"Made by `{shlex.join(['python', '-m', 'bench.transactions', *sys.argv[1:]])}`: {_counted(rounds, 'round')}, the brokers taking",
            "turns within each; medians, with the smallest and largest round in brackets. A ratio is taken within a round.",
            "Compare only within this page. Records (`bench/mixed_records.py`): keys, JSON of 60 to 900 bytes, headers on a",
            "third, lz4. confluent-kafka speaks transaction version 1, Ottla's client version 2, to both brokers. A transaction",
            "ends before the next one begins; its time runs from begin to the answer of commit. `cpu…` is the CPU of the",
            "brokers. `share_of_idempotent`: records per second in transactions of a hundred, divided by those of an idempotent",
            "producer that waits for its answers after every hundred records.",
            "",
            *facts,
            "",
            TARGETS_NOTE,
            "",
            *(line for lines in sections for line in lines),
        ]
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything in one round; no results")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads with this")
    parser.add_argument("--runs", type=int, default=ROUNDS, metavar="N", help=f"rounds (default: {ROUNDS})")
    parser.add_argument("--brokers", type=int, choices=[1, 3], action="append", help="default: 1, then 3")
    parser.add_argument("--targets", default=",".join(NAMES), help="comma-separated (default: both)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the page that is written")
    chosen = parser.parse_args()
    unknown = set(chosen.targets.split(",")) - set(NAMES)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return chosen


def main() -> int:
    chosen = options()
    compileall.compile_dir(str(SOURCE), quiet=1)  # as pip leaves an installed package
    facts, sections = machine(), list[list[str]]()
    directory = Path(tempfile.mkdtemp(prefix="ottla-transactions-"))
    try:
        for brokers in chosen.brokers or [1, 3]:
            before = os.getloadavg()[0]
            values = run_all(chosen, directory, brokers)
            load = f"Load average of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}."
            sections.append(section(brokers, values, load))
    except CannotFetchError as reason:
        print(f"{reason}\nWithout it: --targets ottla", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = page(sections, 1 if chosen.quick else chosen.runs, facts)
    print("\n" + text)
    if not (chosen.quick or chosen.only) and chosen.targets == ",".join(NAMES):
        chosen.results.write_text(text)
        print(f"written to {chosen.results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
