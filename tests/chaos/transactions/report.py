"""The verdict of a run of transactional clients as a page."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter

from tests.chaos.report import table
from tests.chaos.run import SETTINGS
from tests.chaos.transactions.run import Report

_EXAMPLES = 20
CHECKED = (
    "a committed transaction is readable as a whole, and an aborted one not at all, in all partitions",
    "a transaction whose commit was acknowledged is there; one that was aborted, or never asked to commit, is not",
    "no record is there twice, or where it was not sent; the records of a producer stand in their order",
    "one marker ends one transaction, and no transaction is open for ever",
    "a reader of committed records gets every committed record, once, in order, and no other",
    "a reader of uncommitted records gets every record of the log, once, in order",
    "a record below the committed offset of the group has exactly one record that was made of it; no other has",
    "no transaction comes before itself: by reading, by writing with the same id, or by the order of a producer",
)


def page(report: Report, commit: str) -> str:
    """Markdown."""
    options, ends = report.options, report.transactions
    lines = [
        "# The killing test of transactions",
        "",
        f'`make chaos ARGS="--transactions --faults {options.faults} --seed {options.seed}"`, {time.strftime("%Y-%m-%d")}, commit {commit}, '
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}; {report.seconds / 60:.0f} minutes.",
        "",
        f"{len(report.injected)} faults in a cluster of {options.brokers} brokers, two topics of {options.partitions} partitions with "
        f"{min(options.brokers, 3)} replicas, under writers, processors and readers of librdkafka and of Ottla"
        f"{', and a writer of the Java client' if options.with_java else ''}: "
        f"{ends.get('committed', 0):,} transactions committed, {ends.get('aborted', 0):,} aborted, {ends.get('untold', 0):,} whose producer "
        f"was left behind or did not hear of their end; {report.records:,} records sent in them, {report.read:,} read.",
        "",
        "## Verdict",
        "",
        f"Broken promises: {len(report.broken)}. Partitions whose replicas differ on disk: {len(report.differing)}. Checked:",
        "",
        *(f"- {each}" for each in CHECKED),
    ]
    if not report.is_clean:
        lines += ["", "```", *(*report.broken, *report.differing)[:_EXAMPLES], "```"]
    kinds = Counter(injected.fault.kind for injected in report.injected)
    lines += ["", "## Faults", "", *table(["fault", "times"], sorted(kinds.items()))]
    if report.failures:
        lines += ["", "## Errors that ended a client's life, or a transaction, and were got over", ""]
        lines += table(["error", "times"], sorted(report.failures.items()))
    settings = ", ".join(f"`{name}={value}`" for name, value in {**SETTINGS, **options.settings}.items())
    return "\n".join([*lines, "", f"Settings that differ from the defaults: {settings}.", ""])
