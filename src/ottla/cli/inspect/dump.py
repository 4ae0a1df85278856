"""`ottla dump`: what is inside the files of a data directory.

It reads files and nothing else, so it works while a broker runs, and on files that Apache Kafka wrote. Damage
is named where it is, and reading continues after it. Exit codes: 0 all was read, 1 something was damaged or
missing, 2 the command was not understood.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import click

from ottla.cli.inspect.dump_rows import METADATA_TOPIC, Row, Wanted, reader_of
from ottla.cli.inspect.dump_tables import json_line, print_rows
from ottla.wire.socket_errors import reason

_RANGE: Final = re.compile(r"(\d*)\.\.(\d*)|(\d+)")
# In a partition's directory: what it is, then segment by segment the batches and what stands beside them.
_ORDER: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def _offsets(context: click.Context, option: click.Parameter, text: str | None) -> tuple[int, int]:
    match = _RANGE.fullmatch(text or "..")
    if match is None:
        raise click.BadParameter(
            f"'{text}' is no range of offsets; write 100..200, 100.., ..200 or 100", context, option
        )
    first, last, single = match.groups()
    if single is not None:
        return int(single), int(single)
    bounds = int(first or 0), int(last) if last else Wanted().last_offset
    if bounds[0] > bounds[1]:
        raise click.BadParameter(f"{first} is after {last}", context, option)
    return bounds


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--records", is_flag=True, help="Decode the records in the batches.")
@click.option("--deep", is_flag=True, help="Check the checksum of every batch.")
@click.option(
    "--offsets", metavar="A..B", callback=_offsets, help="Only what lies in this range; both ends count."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N rows of each file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row instead of tables.")
def dump(
    paths: tuple[Path, ...],
    records: bool,
    deep: bool,
    offsets: tuple[int, int],
    limit: int | None,
    as_json: bool,
) -> None:
    """Show what is inside files of a data directory.

    PATH is a file (.log, .index, .timeindex, .snapshot, a checkpoint, ...), the directory of a partition, or
    a whole data directory. Ottla's files are Apache Kafka's, and Kafka's own can be read just as well.

    \b
    ottla dump ottla-data/orders-0 --records --limit 20
    ottla dump ottla-data/orders-0/00000000000000000000.log --deep --offsets 100..200
    ottla dump ottla-data/__cluster_metadata-0
    ottla dump ottla-data/__transaction_state-7 --records
    """
    wanted = Wanted(records, deep, *offsets)
    is_sound = True
    for path in paths:
        try:
            for file in _files_of(path):
                is_sound &= _dump_file(file, wanted, limit, as_json)
        except BrokenPipeError:
            raise  # the reader has closed the pipe (`| head`): click ends quietly
        except (OSError, ValueError) as problem:
            is_sound = False
            click.echo(f"Error: {_sentence(path, problem)}", err=True)
    if not is_sound:
        raise SystemExit(1)


def _sentence(path: Path, problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return f"there is no {problem.filename or path}"
    if isinstance(problem, OSError):
        return f"{problem.filename or path} cannot be read: {reason(problem)}"
    return str(problem)


def _files_of(path: Path) -> Iterator[Path]:
    """The files to be shown for one PATH, in an order that makes sense to a reader."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "not there", str(path))
    if not path.is_dir():
        if reader_of(path.name) is None:
            raise ValueError(f"{path} is no file that belongs into a data directory")
        yield path
        return
    files = list(_known_files(path))
    if not files:
        raise ValueError(
            f"{path} holds no file of a broker: it is neither a data directory nor one of a partition"
        )
    yield from files


def _known_files(directory: Path) -> Iterator[Path]:
    entries = sorted(directory.iterdir(), key=_place)
    yield from (entry for entry in entries if entry.is_file() and reader_of(entry.name))
    for entry in entries:
        if entry.is_dir() and any(entry.glob("*.log*")):
            yield from _known_files(entry)


def _place(path: Path) -> tuple[bool, str, int, str]:
    is_segment = path.name[:20].isdecimal()
    order = _ORDER.index(path.suffix) if path.suffix in _ORDER else len(_ORDER)
    return is_segment, path.name[:20] if is_segment else "", order, path.name


def _dump_file(path: Path, wanted: Wanted, limit: int | None, as_json: bool) -> bool:
    """Show one file; False if something in it is damaged."""
    reader = reader_of(path.name)
    assert reader is not None, path
    damages = 0

    def counted() -> Iterator[Row]:
        nonlocal damages
        for row in islice(reader(path, wanted), limit):
            damages += row["kind"] == "damage"
            yield row

    if as_json:
        for row in counted():
            click.echo(json_line(str(path), row))
        return damages == 0
    size = path.stat().st_size
    click.echo(click.style(f"{path} ({size} bytes)", bold=True))
    is_metadata = path.parent.name.startswith(METADATA_TOPIC) or path.suffix == ".checkpoint"
    if not print_rows(counted(), with_records=wanted.records or is_metadata):
        click.echo("  nothing in it" if not size else "  nothing to show")
    return damages == 0
