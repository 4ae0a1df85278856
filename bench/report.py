"""The tables: for the terminal while it runs, and `bench/RESULTS.md` with everything needed to run it
again.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench.apache.kafka import VERSION as KAFKA_VERSION
from bench.memory import memory_bytes
from bench.verdicts import TARGETS, Measured, Spread, Target

RESULTS = Path(__file__).with_name("RESULTS.md")
TARGETS_NOTE = "The last column names the row of the [table of targets](../docs/benchmarks.md#targets)."
BUSY = ": the machine was busy with other work, so do not rely on what is measured in seconds (throughput, latency, start)"
ORDER = ("floor", "ottla", "apache", "mock")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table whose columns also line up for people."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    lines = [
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [headings, *rows]
    ]
    lines.insert(1, ["-" * width for width in widths])
    return ["| " + " | ".join(line) + " |" for line in lines]


def figures_table(measured: Measured) -> list[str]:
    """Every figure of every target: median and spread."""
    present = [name for name in ORDER if any(name in by_target for by_target in measured.values())]
    rows: list[list[str]] = []
    for workload, by_target in measured.items():
        names = dict.fromkeys(name for figures in by_target.values() for name in figures)
        for figure in names:
            cells = [by_target.get(target, {}).get(figure, ()) for target in present]
            rows.append([workload, figure, *(Spread.of(cell).text() if cell else "-" for cell in cells)])
    return table(["workload", "figure", *present], rows)


def verdicts_table(
    measured: Measured, *, promises: Sequence[Target] = TARGETS, everything: bool = True
) -> list[str]:
    """Each promise: what it asks, what was measured, held or missed; perhaps only those that were
    measured.
    """
    rows: list[list[str]] = []
    for target in promises:
        values = target.values(measured)
        limit = f"{'≤' if target.at_most else '≥'} {target.limit:g}"
        if values:
            spread = Spread.of(values)
            rows.append([target.name(), limit, spread.text(), target.verdict(spread), target.name_in_docs])
        elif everything:
            rows.append([target.name(), limit, "-", "not measured", target.name_in_docs])
    return table(["what", "asked", "median (spread)", "verdict", "target"], rows)


def machine() -> list[str]:
    """Where and with what this was measured, and whether the machine had time for it."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    load = os.getloadavg()[0]
    return [
        f"- {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, commit {commit.stdout.strip() or 'unknown'}",
        f"- {os.cpu_count()} x {model.group(1) if model else platform.processor()}, "
        f"{memory_bytes('MemTotal') >> 30} GiB, Linux {platform.release()}",
        f"- Python {platform.python_version()}, ottla {version('ottla')}, confluent-kafka {version('confluent-kafka')}, "
        f"crc32c {version('crc32c')}",
        f"- Apache Kafka {KAFKA_VERSION}, {(java.stderr.splitlines() or ['no java'])[0]}",
        f"- load average at the start: {load:.2f}{BUSY if load > (os.cpu_count() or 1) else ''}",
    ]


def write(measured: Measured, command: str, rounds: int, facts: Sequence[str]) -> None:
    """Keep the results beside the code that made them."""
    lines = [
        "# What was measured",
        "",
        f"Made by `{command}`: {rounds} rounds, the targets taking turns within each; medians, with the smallest and",
        "largest round in brackets. Compare only within this page. How each figure is taken stands in `bench/`.",
        "Records: all values alike, of the size that the workload names; no keys, headers or compression; one partition.",
        "Our Python clients beside confluent-kafka, aiokafka and kafka-python: [RESULTS_CLIENTS.md](RESULTS_CLIENTS.md), and",
        "on mixed records [RESULTS_MIXED.md](RESULTS_MIXED.md).",
        "Spark's source and sink beside Spark's own Kafka connector: [RESULTS_SPARK.md](RESULTS_SPARK.md).",
        "",
        *facts,
        "",
        "## The ratios to hold",
        "",
        TARGETS_NOTE,
        "",
        *verdicts_table(measured),
        "",
        "## Everything",
        "",
        "`cpu…` is the broker's own CPU time (user and system, all threads), per GB of records or per request.",
        "`floor` is `bench/floor.py`: read, checksum, write, answer, and nothing else. `mock` is librdkafka's in-memory",
        "cluster inside the client.",
        "",
        *figures_table(measured),
        "",
    ]
    RESULTS.write_text("\n".join(lines))
