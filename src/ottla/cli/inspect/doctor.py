"""`ottla doctor`: examines a data directory and a running broker, says what is wrong and what to do about it.

Exit codes: 0 healthy, 1 something was found, 2 something could not be looked at.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.broker_command import print_json
from ottla.cli.client_config import are_brokers_by_chance, client_options
from ottla.client.admin.checks.findings import CannotLookError, Examination, Severity
from ottla.localcluster.state import ClusterError

_DEFAULT_DATA: Final = Path("ottla-data")  # where `ottla serve` keeps its data by default
_DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_INDENT: Final = " " * 10
_COLORS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A data directory to examine, or the directory of an `ottla cluster`: all of its brokers.",
)
@click.option(
    "--settings",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A broker's file of settings, as for ottla serve --config: what is open, certificates that expire.",
)
@click.option(
    "--bootstrap", metavar="HOST:PORT", envvar="OTTLA_BOOTSTRAP", help="A running broker to examine."
)
@client_options
@click.option(
    "--deep", is_flag=True, help="Read every batch and check its checksum; follow every index entry."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
@click.pass_context
def doctor(
    context: click.Context,
    data: Path | None,
    settings: Path | None,
    bootstrap: str | None,
    deep: bool,
    as_json: bool,
) -> None:
    """Check a data directory, settings and a running broker, and say what is wrong or open to others.

    Nothing is changed, and a broker may be running. Without --data and --bootstrap it looks at ./ottla-data
    if that is there, and else at the broker on localhost:9092. Exit code 0: healthy; 1: something was found;
    2: something could not be looked at.

    \b
    ottla doctor --data /var/lib/ottla --deep
    ottla doctor --settings /etc/ottla/broker.properties
    ottla doctor --bootstrap localhost:9092
    """
    if are_brokers_by_chance(context) and (data or settings):
        bootstrap = None
    if data is None and bootstrap is None and settings is None:
        data, bootstrap = (_DEFAULT_DATA, None) if _DEFAULT_DATA.is_dir() else (None, _DEFAULT_BOOTSTRAP)
    examinations, refusals = _examine(data, settings, bootstrap, deep)
    if data is not None and bootstrap is not None and not refusals:
        for each in examinations[:-1]:
            _compare(each, examinations[-1])
    if as_json:
        print_json(_as_json(examinations, refusals))
    else:
        _print(examinations, refusals)
    is_healthy = all(each.is_healthy for each in examinations)
    raise SystemExit(2 if refusals else 0 if is_healthy else 1)


def _examine(
    data: Path | None, settings: Path | None, bootstrap: str | None, deep: bool
) -> tuple[list[Examination], list[str]]:
    # Imported here: a check of a directory does not need the protocol, and a check of a broker no log.
    from ottla.cli.inspect import broker_check, data_directory_check, security_check

    directories = [] if data is None else data_directory_check.data_directories(data)
    wanted: list[Callable[[], Examination | None]] = [
        partial(data_directory_check.check_data, directory, deep=deep) for directory in directories
    ]
    if data is not None:
        wanted.append(partial(security_check.check_directory, data))
    if settings is not None:
        wanted.append(partial(security_check.check_settings_file, settings))
    if bootstrap is not None:
        wanted.append(lambda: broker_check.examine(bootstrap))
    examinations, refusals = [], []
    for look in wanted:
        try:
            examination = look()
        except (CannotLookError, ClusterError, ValueError) as refusal:
            refusals.append(str(refusal))
        else:
            examinations += [] if examination is None else [examination]
    return examinations, refusals


def _compare(data: Examination, broker: Examination) -> None:
    """A broker that answers and a directory in use should be of the same cluster."""
    ours, theirs = data.facts.get("cluster_id"), broker.facts.get("cluster_id")
    if data.facts.get("in_use_by") is not None and ours and theirs and ours != theirs:
        broker.warning(
            broker.subject,
            f"it belongs to cluster {theirs}, and {data.subject} to cluster {ours}",
            "They are two different brokers: give the address and the directory of the same one.",
        )


def _as_json(examinations: list[Examination], refusals: list[str]) -> dict[str, Any]:
    return {
        "healthy": not refusals and all(each.is_healthy for each in examinations),
        "examined": [
            {
                "subject": each.subject,
                "facts": each.facts,
                "findings": [
                    {
                        "severity": finding.severity.name.lower(),
                        "place": finding.place,
                        "problem": finding.problem,
                        "advice": finding.advice,
                    }
                    for finding in each.findings
                ],
            }
            for each in examinations
        ],
        "could_not_look": refusals,
    }


def _print(examinations: list[Examination], refusals: list[str]) -> None:
    for each in examinations:
        click.echo(click.style(each.subject, bold=True) + f": {_facts(each)}")
        for finding in sorted(each.findings, key=lambda finding: -finding.severity):
            word = click.style(f"{finding.severity.name.lower():7}", fg=_COLORS[finding.severity], bold=True)
            click.echo(_folded(f"  {word} {finding.place}: {finding.problem}."))
            click.echo(_folded(f"{_INDENT}{finding.advice}"))
        click.echo(f"  {_verdict(each)}")
    for refusal in refusals:
        click.echo(f"Error: {refusal}", err=True)


def _folded(line: str) -> str:
    """A long line folded to the width of the terminal; a pipe has none."""
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        line, width, subsequent_indent=_INDENT, break_on_hyphens=False, break_long_words=False
    )


def _facts(examination: Examination) -> str:
    facts = examination.facts
    if "segments" in facts:
        return (
            f"{_count(facts['partitions'], 'partition')}, {_count(facts['segments'], 'segment')}, "
            f"{facts['size_bytes']} bytes; {facts['disk_free_bytes'] >> 20} MiB free on the disk"
        )
    if "settings" in facts:
        return _count(facts["settings"], "setting")
    return (
        f"cluster {facts['cluster_id']}, {_count(facts['brokers'], 'broker')}, {_count(facts['topics'], 'topic')}, "
        f"{_count(facts['partitions'], 'partition')}; a question takes {facts['round_trip_ms']} ms"
    )


def _verdict(examination: Examination) -> str:
    if examination.is_healthy:
        return click.style("All is well.", fg="green")
    severities = [finding.severity for finding in examination.findings]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    return f"Found {_count(errors, 'error')} and {_count(warnings, 'warning')}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
