"""The result of a query as a table for people, or as JSON, CSV or Parquet for programs.

Bytes are shown as text where they are UTF-8, else in hexadecimal digits.
"""

from __future__ import annotations

import csv
import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.broker_command import print_table

if TYPE_CHECKING:
    import pyarrow as pa

FORMS: Final = ("table", "json", "csv", "parquet")
_ROWS_SHOWN: Final = 1_000


def print_result(result: pa.Table, form: str) -> None:
    """Print all rows; a table for people ends after a thousand."""
    match form:
        case "json":
            for row in _rows(result):
                click.echo(json.dumps(dict(zip(result.column_names, row, strict=True)), ensure_ascii=False))
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(result.column_names)
            writer.writerows(["" if cell is None else _flat(cell) for cell in row] for row in _rows(result))
        case _:
            shown = result.slice(0, _ROWS_SHOWN)
            print_table(result.column_names, ([_flat(cell) for cell in row] for row in _rows(shown)))
            left = result.num_rows - shown.num_rows
            click.echo(
                f"{result.num_rows} rows" + (f", {left} not shown; --output json has all" if left > 0 else "")
            )


def write_parquet(result: pa.Table, file: Path) -> None:
    """Write all rows to a file."""
    import pyarrow.parquet as pq

    pq.write_table(result, file)
    click.echo(f"{result.num_rows} rows in {file}")


def _rows(result: pa.Table) -> list[list[Any]]:
    return [
        [_plain(cell) for cell in row.values()]
        for batch in result.rename_columns([str(at) for at in range(result.num_columns)]).to_batches()
        for row in batch.to_pylist()
    ]


def _plain(cell: Any) -> Any:
    """The value in a form that JSON has."""
    match cell:
        case bytes():
            try:
                return cell.decode()
            except UnicodeDecodeError:
                return cell.hex()
        case datetime() | date():
            return cell.isoformat()
        case dict():
            return {str(name): _plain(value) for name, value in cell.items()}
        case list() | tuple() if not hasattr(cell, "_fields"):
            return [_plain(each) for each in cell]
        case None | bool() | int() | float() | str():
            return cell
    return str(cell)


def _flat(cell: Any) -> Any:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else cell
