"""The result of `ottla lake check`, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.broker_command import print_json, print_table

if TYPE_CHECKING:
    from ottla.lake.comparison import PartitionVerdict

_FINDINGS: Final = ("missing", "duplicates", "extra", "altered")
_SHOWN: Final = 10


def show_verdicts(topic: str, verdicts: Sequence[PartitionVerdict], *, as_json: bool) -> None:
    """Print what was compared, and what differs."""
    if as_json:
        print_json([_json(each) for each in verdicts])
        return
    titles = ["partition", "compared offsets", "records", "rows", "dead letters", *_FINDINGS, "verdict"]
    print_table(titles, [_cells(each) for each in verdicts])
    for each in verdicts:
        for name in _FINDINGS:
            offsets = getattr(each, name)
            if offsets:
                more = " …" if len(offsets) > _SHOWN else ""
                click.echo(f"{topic}-{each.partition} {name}: {', '.join(map(str, offsets[:_SHOWN]))}{more}")
    is_equal = all(each.is_equal for each in verdicts)
    words = "holds each record exactly once, as it is in the log" if is_equal else "is NOT the topic"
    click.echo(f"The table of {topic} {words}.")


def _cells(verdict: PartitionVerdict) -> tuple[object, ...]:
    compared = f"{verdict.first}-{verdict.end - 1}" if verdict.end > verdict.first else None
    findings = [len(getattr(verdict, name)) for name in _FINDINGS]
    said = "equal" if verdict.is_equal else "NOT EQUAL"
    return verdict.partition, compared, verdict.records, verdict.rows, verdict.dead_letters, *findings, said


def _json(verdict: PartitionVerdict) -> dict[str, object]:
    return {
        "partition": verdict.partition,
        "first_offset": verdict.first,
        "end_offset": verdict.end,
        "records": verdict.records,
        "rows": verdict.rows,
        "dead_letters": verdict.dead_letters,
        **{name: getattr(verdict, name) for name in _FINDINGS},
        "is_equal": verdict.is_equal,
    }
