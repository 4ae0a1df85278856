"""`ottla sql`: a query over topics and their tables, with an embedded DuckDB."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.broker_command import bootstrap_option
from ottla.cli.lake.options import cluster_given, failures_in_a_sentence, warehouse_option
from ottla.cli.lake.result_form import FORMS, print_result, write_parquet


@click.command()
@click.argument("query")
@click.option(
    "--output",
    "form",
    type=click.Choice(FORMS),
    default="table",
    show_default=True,
    help="The form of the result.",
)
@click.option(
    "--to", "file", type=click.Path(dir_okay=False, path_type=Path), help="The file for --output parquet."
)
@click.option(
    "--at",
    metavar="TIME",
    help="The topics as they were: only records before this time (2026-11-18T08:30:00Z).",
)
@warehouse_option
@bootstrap_option
def sql(query: str, form: str, file: Path | None, at: str | None, bootstrap: str, warehouse: str) -> None:
    """Answer QUERY over topics: FROM orders is the table of the topic orders and the log after it, without gap or
    duplicate; the log alone, if the topic has no table.

    Nothing is written. Names with other characters than letters, digits and _ stand in double quotes, and so does
    "offset", which is a word of SQL.

    \b
    ottla sql "SELECT country, sum(amount) FROM orders GROUP BY country"
    ottla sql "SELECT decode(value) FROM payments WHERE partition = 0" --output json
    ottla sql "FROM orders" --output parquet --to orders.parquet
    """
    if (form == "parquet") != (file is not None):
        raise click.UsageError("--output parquet needs a file, --to FILE, and only --output parquet has one")
    with failures_in_a_sentence():
        from ottla.lake.topic_queries import query_topics
        from ottla.lake.warehouse import Warehouse

        result = query_topics(query, Warehouse(warehouse), cluster_given(bootstrap), at)
        if file is not None:
            write_parquet(result, file)
        else:
            print_result(result, form)
