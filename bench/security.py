"""Security beside Apache Kafka: `python -m bench.security`.

    python -m bench.security                    TLS, logins, rights; writes bench/RESULTS_SECURITY.md
    python -m bench.security --quick            a tenth of everything, one round: is it still alive?
    python -m bench.security --only handshakes  workloads whose name contains this (repeatable)
    python -m bench.security --targets ottla    without Apache Kafka

Both brokers run all the time with the same certificate and the same TLS, and take turns within a round, each with the
same client and the same records (`bench/mixed_records.py`: keys, sizes from 60 to 900 bytes, headers, lz4). Every
measurement is a client process of its own. CPU is that of the broker. What rights cost is measured between brokers of
Ottla that differ in their rules only (`bench/security_targets.py`), which take turns as well.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.apache.maven import CannotFetchError
from bench.report import TARGETS_NOTE, figures_table, machine, table, verdicts_table
from bench.security_loads import PARTITIONS
from bench.security_targets import ACLS, GUARDED, TLS_VERSION, Site, guarded, secured
from bench.targets import Target as BrokerTarget
from bench.verdicts import Spread, Target
from bench.workloads import client_answer, create, raw

from ottla import NewTopic
from ottla.blocking import Admin

RESULTS: Final = Path(__file__).with_name("RESULTS_SECURITY.md")
SOURCE: Final = Path(__file__).resolve().parents[1] / "src"
NAMES: Final = ("ottla", "apache")
ASKED: Final = "security"  # the row of the table of targets in docs/benchmarks.md
ROUNDS: Final = 5
QUICK_SCALE: Final = 0.05
WARM_UP_SCALE: Final = 0.5
RECORDS: Final = 200_000
HANDSHAKES: Final = 500
LOGINS: Final = 200
REQUESTS: Final = 4_000
SMALL_REQUESTS: Final = 100_000
MOST_COST_OF_RIGHTS: Final = 1.02

Values = dict[str, dict[str, dict[str, list[float]]]]
# Figures of the brokers with rules: broker, figure, one value per round.
Costs = dict[str, dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class Run:
    """Which round, how much of everything, and how many records each topic to read has."""

    number: int
    scale: float
    written: dict[tuple[str, str], int]

    def some(self, amount: int) -> int:
        return max(20, int(amount * self.scale))


@dataclass(frozen=True, slots=True)
class Workload:
    """A named measurement."""

    name: str
    measure: Callable[[Site, Run], dict[str, float]]


def client(site: Site, work: str, **options: object) -> dict[str, float]:
    return client_answer("bench.security_loads", work, {"broker-pid": site.target.pid, **options})


def door(site: Site, *, uses_tls: bool) -> dict[str, object]:
    if not uses_tls:
        return {"bootstrap": site.bootstrap}
    return {"bootstrap": f"127.0.0.1:{site.tls_port}", "ca": site.ca_file}


def topic_of(site: Site, name: str) -> str:
    with Admin(site.bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=PARTITIONS)])
    return name


def produce(site: Site, run: Run, *, uses_tls: bool) -> dict[str, float]:
    topic = topic_of(site, f"produce-{uses_tls}-{run.number}")
    return client(site, "produce", topic=topic, count=run.some(RECORDS), **door(site, uses_tls=uses_tls))


def consume(site: Site, run: Run, *, uses_tls: bool) -> dict[str, float]:
    """The topic is written once, without TLS."""
    place = site.name, f"consume-{run.scale}"
    if place not in run.written:
        run.written[place] = run.some(RECORDS)
        topic_of(site, place[1])
        client(site, "produce", topic=place[1], count=run.written[place], **door(site, uses_tls=False))
    count = run.written[place]
    return client(site, "consume", topic=place[1], count=count, **door(site, uses_tls=uses_tls))


def handshakes(site: Site, run: Run) -> dict[str, float]:
    return client(site, "handshakes", port=site.tls_port, ca=site.ca_file, count=run.some(HANDSHAKES))


def logins(site: Site, run: Run) -> dict[str, float]:
    return client(site, "logins", port=site.sasl_port, count=run.some(LOGINS))


def neighbours(site: Site, run: Run) -> dict[str, float]:
    topic = create(site.target, f"neighbours-{run.number}")
    return client(site, "neighbours", port=site.target.port, topic=topic, count=run.some(REQUESTS))


WORKLOADS: Final = (
    Workload("produce over TLS", partial(produce, uses_tls=True)),
    Workload("produce without TLS", partial(produce, uses_tls=False)),
    Workload("consume over TLS", partial(consume, uses_tls=True)),
    Workload("consume without TLS", partial(consume, uses_tls=False)),
    Workload("TLS handshakes", handshakes),
    Workload("SCRAM-SHA-256 logins", logins),
    Workload("beside throttled clients", neighbours),
)


def promise(
    workload: str, figure: str, limit: float, *, at_most: bool, peer: str | None = "apache"
) -> Target:
    return Target(workload, figure, limit, at_most=at_most, peer=peer, name_in_docs=ASKED)


PROMISES: Final = (
    *(
        each
        for name in ("produce over TLS", "consume over TLS")
        for each in (
            promise(name, "mb_per_s", 1.0, at_most=False),
            promise(name, "cpu_s_per_gb", 1.0, at_most=True),
        )
    ),
    promise("TLS handshakes", "handshakes_per_s", 1.0, at_most=False),
    promise("SCRAM-SHA-256 logins", "logins_per_s", 1.0, at_most=False),
    promise("beside throttled clients", "p50_to_alone", 1.1, at_most=True, peer=None),
)


def measure(workloads: Sequence[Workload], sites: Sequence[Site], run: Run, values: Values | None) -> None:
    """One round: each workload at each site in turn, another one first each time; a warm-up keeps no values."""
    first = run.number % len(sites)
    for workload in workloads:
        for site in [*sites[first:], *sites[:first]]:
            figures = workload.measure(site, run)
            if values is None:
                continue
            words = "  ".join(f"{name} {value:.3g}" for name, value in figures.items())
            print(f"  {run.number}  {workload.name:26} {site.name:8} {words}", flush=True)
            kept = values.setdefault(workload.name, {}).setdefault(site.name, {})
            for name, value in figures.items():
                kept.setdefault(name, []).append(value)


def measure_rights(targets: Mapping[str, BrokerTarget], run: Run, costs: Costs | None) -> None:
    """One round of small requests at brokers with different rules, another one first each time."""
    names = list(targets)
    first = run.number % len(names)
    for name in [*names[first:], *names[:first]]:
        topic = create(targets[name], f"guarded-{run.number}-{run.scale}")
        for work, amount in (("small", SMALL_REQUESTS), ("ping-pong", REQUESTS)):
            result = raw(targets[name], work, topic, requests=run.some(amount))
            cost_us = result.broker_cpu_seconds / result.requests * 1e6
            if costs is not None:
                print(f"  {run.number}  {work:26} {name:12} cpu_us_per_request {cost_us:.3g}", flush=True)
                costs.setdefault(name, {}).setdefault(work, []).append(cost_us)


def run_all(chosen: argparse.Namespace, directory: Path) -> tuple[Values, Costs]:
    """Start everything, warm it up, measure round after round."""
    wanted = [each for each in WORKLOADS if not chosen.only or any(part in each.name for part in chosen.only)]
    values, costs, written = Values(), Costs(), dict[tuple[str, str], int]()
    scale, rounds = (QUICK_SCALE, 1) if chosen.quick else (1.0, chosen.runs)
    if wanted:
        with secured(chosen.targets.split(","), directory) as sites:
            if not chosen.quick:
                measure(wanted, sites, Run(0, WARM_UP_SCALE, written), None)
            for number in range(1, rounds + 1):
                measure(wanted, sites, Run(number, scale, written), values)
    if not chosen.only or any(part in "rights" for part in chosen.only):
        with guarded(directory / "guarded", 200 if chosen.quick else ACLS) as targets:
            measure_rights(targets, Run(0, WARM_UP_SCALE, written), None)
            for number in range(1, rounds + 1):
                measure_rights(targets, Run(number, scale, written), costs)
    return values, costs


def rights_table(costs: Costs) -> list[str]:
    """What a small request costs with rules, and divided by what it costs without an authoriser."""
    rows = []
    for work, what in (("small", "small produce, pipelined"), ("ping-pong", "small produce, one by one")):
        for name in GUARDED:
            values, without = costs.get(name, {}).get(work, []), costs.get("open", {}).get(work, [])
            if not values:
                continue
            ratio = Spread.of([each / other for each, other in zip(values, without, strict=True)])
            is_judged = name != "open" and work == "small"
            verdict = ("held" if ratio.median <= MOST_COST_OF_RIGHTS else "missed") if is_judged else ""
            cells = f"{Spread.of(values).median:.2f}", f"{ratio.median:.3f}"
            spread = f"{ratio.low:.3f} to {ratio.high:.3f}"
            rows.append([what, name, cells[0], f"{cells[1]} ({spread})", verdict])
    return table(["what", "broker", "cpu µs per request", "÷ open", f"≤ {MOST_COST_OF_RIGHTS}"], rows)


def page(values: Values, costs: Costs, rounds: int, facts: Sequence[str], load: str) -> str:
    return "\n".join(
        [
            "# Security beside Apache Kafka",
            "",
            f"Made by `{shlex.join(['python', '-m', 'bench.security', *sys.argv[1:]])}`: {rounds} rounds, the brokers taking turns within",
            "each; medians, with the smallest and largest round in brackets. A ratio is taken within a round. Compare only within",
            f"this page. One broker of each make with the same certificate (P-256) and {TLS_VERSION}; confluent-kafka as the client; records",
            "of `bench/mixed_records.py` (keys, JSON of 60 to 900 bytes, headers on a third, lz4) in six partitions, acks=all. Bytes",
            "are those of keys and values. Handshakes and logins come one after the other from one process of Python, whose own",
            "part of a login is 4,096 hashes; `cpu…` is the broker's.",
            "",
            *facts,
            f"- {load}",
            "",
            TARGETS_NOTE,
            "",
            "## The ratios to hold",
            "",
            *verdicts_table(values, promises=PROMISES, everything=False),
            "",
            "## What rights cost",
            "",
            "Three brokers of Ottla: without an authoriser, with the two rules that the load needs, and with "
            f"{ACLS:,} more. Requests that repeat",
            "each other are recognised, so that a right is looked up once for many of them.",
            "",
            *rights_table(costs),
            "",
            "## Everything",
            "",
            *figures_table(values),
            "",
        ]
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a part of everything in one round; no results")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads with this")
    parser.add_argument("--runs", type=int, default=ROUNDS, metavar="N", help=f"rounds (default: {ROUNDS})")
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
    facts, before = machine(), os.getloadavg()[0]
    directory = Path(tempfile.mkdtemp(prefix="ottla-security-"))
    try:
        values, costs = run_all(chosen, directory)
    except CannotFetchError as reason:
        print(f"{reason}\nWithout it: --targets ottla", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    load = f"Load average of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}."
    text = page(values, costs, 1 if chosen.quick else chosen.runs, facts, load)
    print("\n" + text)
    if not (chosen.quick or chosen.only) and chosen.targets == ",".join(NAMES):
        chosen.results.write_text(text)
        print(f"written to {chosen.results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
