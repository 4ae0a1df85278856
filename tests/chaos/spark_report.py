"""The verdict of a run with Spark as a page: what was killed, what it cost, and what was wrong."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from tests.chaos.report import table
from tests.chaos.spark_kills import Moment
from tests.chaos.spark_run import RECOVERY_DEADLINE_S, SETTINGS, Injected, Report

_EXAMPLES = 20


def page(report: Report, commit: str) -> str:
    """Markdown."""
    parts = [_head(report, commit), _verdict(report), _kills(report), _moments(report), _notes(report)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(report: Report, commit: str) -> list[str]:
    options = report.options
    return [
        "# The killing test through Spark",
        "",
        f'`make chaos ARGS="--spark{" --sink" if options.to_topic else ""} --faults {options.kills} --seed {options.seed}"`, {time.strftime("%Y-%m-%d")}, commit {commit}, '
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}; {report.seconds / 60:.0f} minutes.",
        "",
        f"{len(report.injected)} kills (`kill -9`) of driver, executors, Python workers and brokers, while a structured streaming query writes a topic {'exactly once to another topic' if options.to_topic else 'to a Parquet table'}: "
        f"3 brokers, {options.partitions} partitions with 3 replicas, {options.producers} idempotent producers with acks=all, Spark on `{options.master}`. "
        f"{report.acked:,} records acknowledged of {report.sent:,} sent, {report.batches:,} batches, {report.starts} starts of the driver.",
    ]


def _verdict(report: Report) -> list[str]:
    partitions = report.audit["partitions"]
    rows = [
        ["records of the topic that are not in the table", sum(each["missing"] for each in partitions)],
        ["rows too many", sum(each["duplicates"] for each in partitions)],
        ["rows that are in no topic", sum(each["extra"] for each in partitions)],
        ["rows with another value", sum(each["altered"] for each in partitions)],
        ["acknowledged, and not in the table once", len(report.table_faults)],
        [
            "promises of the log that were not kept (lost, doubled, reordered, replicas that differ)",
            len(report.anomalies),
        ],
    ]
    lines = ["## Verdict", "", *table(["what must not happen", "times"], rows), ""]
    lines.append(
        f"{'Topic beside topic' if report.options.to_topic else '`ottla audit`'}: {'equal' if report.audit['equal'] else 'NOT EQUAL'}, {report.audit['records']:,} records, {report.audit['rows']:,} rows."
    )
    if not report.is_clean:
        found = [*report.table_faults, *report.anomalies, *map(str, report.audit["offenders"])]
        lines += ["", "```", *found[:_EXAMPLES], "```"]
    return lines


def _kills(report: Report) -> list[str]:
    by_kind: dict[str, list[Injected]] = defaultdict(list)
    for each in report.injected:
        by_kind[each.kill.kind].append(each)
    rows = []
    for kind, those in sorted(by_kind.items()):
        times = [each.back_s for each in those if each.back_s is not None]
        middle, most = (f"{median(times):.1f}", f"{max(times):.1f}") if times else ("-", "-")
        rows.append([kind, len(those), middle, most, sum(each.failures for each in those)])
    titles = ["killed", "times", "query back, median s", "worst s", "query ended by itself"]
    return ["## Kills", "", *table(titles, rows)]


def _moments(report: Report) -> list[str]:
    rows = []
    for moment in Moment:
        those = [each for each in report.injected if each.kill.moment is moment]
        rows.append([str(moment), len(those), sum(each.is_hit for each in those)])
    return ["## Moments", "", *table(["moment", "times", "hit"], rows)]


def _notes(report: Report) -> list[str]:
    settings = ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items())
    return [
        "Query back: from the kill (a broker: from its start) until the query has ended a batch that began after it, with the start of a driver's JVM and of its executors in it "
        f"({RECOVERY_DEADLINE_S:.0f} s would be a failure); four kills of ten do not wait for that, and the next one hits what is starting. "
        "Query ended by itself: it failed and was started again, as a supervisor would do it. Hit: the batch was still not over when the kill was done.",
        "",
        f"Settings that differ from the defaults: {settings}.",
    ]


def write_page(path: Path, report: Report, commit: str) -> None:
    path.write_text(page(report, commit), encoding="utf-8")
