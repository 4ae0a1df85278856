"""The verdict of a run as a page: what was done, what it cost, and what was wrong."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from tests.chaos.checker import KINDS
from tests.chaos.run import IN_SYNC_DEADLINE_S, SETTINGS, Options, Report
from tests.chaos.workload import DELIVERY_TIMEOUT_MS

_EXAMPLES = 20
_MACHINES = "--machines "
_SECURE = "--secure "
_TIERED = "--tiered "
_PROXIED = "Everything passes through the proxy of `ottla cluster up --proxy`."
_IN_A_STORE = (
    " Segments of 32 KiB move to an object store, a directory, which goes away and has wrong bytes for a while; "
    "local ones are deleted at once. At the end all records are read from the store through brokers, and past them; "
    "replicas are compared from where the last of them begins."
)
_ON_MACHINES = (
    "Each broker has a network namespace, behind a router that loses packets, and an ext4 file system in an image, "
    "which loses what was not flushed when its power is lost."
)


def page(report: Report, commit: str) -> str:
    """Markdown."""
    return "\n".join(
        [*_head(report, commit), "", *_verdict(report), "", *_faults(report), "", *_notes(report), ""]
    )


def _head(report: Report, commit: str) -> list[str]:
    options, counts = report.options, report.counts
    java = (
        "confluent-kafka and the Java client" if options.with_java else "confluent-kafka only (no Java here)"
    )
    return [
        "# The killing test",
        "",
        f'`make chaos ARGS="{_flags(options)}--faults {options.faults} --seed {options.seed}"`, {time.strftime("%Y-%m-%d")}, commit {commit}, '
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}; {report.seconds / 60:.0f} minutes.",
        "",
        f"{len(report.injected)} faults in a cluster of {options.brokers} brokers, {options.partitions} partitions with {min(options.brokers, 3)} replicas, "
        f"`min.insync.replicas={max(1, min(options.brokers, 3) - 1)}`, under {java}: {counts.acked:,} records acknowledged of {counts.sent:,} sent by idempotent producers with acks=all, "
        f"{counts.read:,} read, {counts.committed:,} offsets committed.",
    ]


def _flags(options: Options) -> str:
    if options.is_tiered:
        return _TIERED
    return _MACHINES if options.on_machines else _SECURE if options.is_secure else ""


def _verdict(report: Report) -> list[str]:
    found: dict[str, int] = defaultdict(int)
    for anomaly in report.anomalies:
        found[anomaly.kind] += 1
    rows = [[kind, found[kind]] for kind in KINDS]
    rows.append(["partitions whose replicas differ on disk", len(report.differing)])
    lines = ["## Verdict", "", *table(["what must not happen", "times"], rows)]
    lines += [
        "",
        f"Given up by a producer after {DELIVERY_TIMEOUT_MS // 1000} s, so never acknowledged: {report.counts.failed}.",
    ]
    if not report.is_clean:
        examples = [str(anomaly) for anomaly in report.anomalies] + list(report.differing)
        lines += ["", "```", *examples[:_EXAMPLES], "```"]
    return lines


def _faults(report: Report) -> list[str]:
    interrupted: dict[str, list[float]] = defaultdict(list)
    in_sync: dict[str, list[float]] = defaultdict(list)
    for injected, seconds in zip(report.injected, report.interruptions_s, strict=True):
        interrupted[injected.fault.kind].append(seconds)
        if injected.in_sync_s is not None:
            in_sync[injected.fault.kind].append(injected.in_sync_s)
    rows = [
        [kind, len(times), _middle(times), _most(times), _middle(in_sync[kind]), _most(in_sync[kind])]
        for kind, times in sorted(interrupted.items())
    ]
    titles = [
        "fault",
        "times",
        "writes interrupted, median s",
        "worst s",
        "in sync after, median s",
        "worst s",
    ]
    return ["## Faults", "", *table(titles, rows)]


def _notes(report: Report) -> list[str]:
    settings = ", ".join(
        f"`{name}={value}`" for name, value in {**SETTINGS, **report.options.settings}.items()
    )
    return [
        "Writes interrupted: the longest time that any one partition went without an acknowledgement while the fault lasted or "
        "the cluster recovered from it; a fault that lasts (a pause, a cut) counts with its length. In sync after: from the end of the "
        f"fault until all replicas of all partitions are in sync again, as every broker says ({IN_SYNC_DEADLINE_S:.0f} s would be a failure); "
        "three faults of ten do not wait for that, and what they leave counts for the next one too. "
        + (_ON_MACHINES if report.options.on_machines else _PROXIED)
        + (_IN_A_STORE if report.options.is_tiered else ""),
        "",
        f"Settings that differ from the defaults: {settings}.",
    ]


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [
        list(titles),
        ["---", *("---:" for _ in titles[1:])],
        *([str(cell) for cell in row] for row in rows),
    ]
    return [f"| {' | '.join(line)} |" for line in lines]


def _middle(times: Sequence[float]) -> str:
    return f"{median(times):.2f}" if times else "-"


def _most(times: Sequence[float]) -> str:
    return f"{max(times):.2f}" if times else "-"


def write_page(path: Path, report: Report, commit: str) -> None:
    path.write_text(page(report, commit), encoding="utf-8")
