"""`ottla lake`: tables of topics, kept up to date exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.broker_command import bootstrap_option, broker_options, print_json, print_table
from ottla.cli.lake.options import cluster_given, failures_in_a_sentence, warehouse_option
from ottla.cli.lake.verdicts import show_verdicts
from ottla.cli.name_values import parse_assignments
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.lake.writing.engines import Engine
    from ottla.lake.writing.job import Committed, TableWriter


@click.group()
def lake() -> None:
    """Keep Iceberg, Delta or Parquet tables of topics, exactly once.

    A table says itself how far it is: the offsets that it holds stand in its own metadata, in each commit. `ottla sql`
    and `ottla.lake.scan` read a table and the log after it as one.
    """


@lake.command()
@click.argument("topic")
@click.option(
    "--table", required=True, metavar="NAME", help="The name of the table, as in orders or sales.orders."
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["iceberg", "delta", "parquet"]),
    default="iceberg",
    show_default=True,
)
@click.option(
    "--value",
    type=click.Choice(["raw", "json", "registry"]),
    default="raw",
    show_default=True,
    help="Bytes as they are; JSON objects as columns; columns by the schemas of a registry.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=TYPE",
    help="A column of JSON values, as in amount=double; repeatable. Without it columns are inferred.",
)
@click.option(
    "--partition-by",
    default="day",
    show_default=True,
    metavar="HOW",
    help="day, hour, key:N (N buckets of the key's hash), or none.",
)
@click.option(
    "--upsert",
    is_flag=True,
    help="A row for each key with its newest value; null values delete keys. Needs --partition-by key:N.",
)
@click.option(
    "--registry",
    default="",
    envvar="OTTLA_REGISTRY",
    metavar="URL",
    help="The registry, for --value registry.",
)
@click.option(
    "--catalog",
    "catalog",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of an Iceberg catalog, as in type=rest, uri=http://localhost:8181, or name=NAME of pyiceberg's "
    "configuration; repeatable.  [default: an embedded catalog in the warehouse]",
)
@click.option(
    "--from", "start", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True
)
@click.option(
    "--file-size", "file_mib", type=click.IntRange(1, 4096), default=128, show_default=True, metavar="MIB"
)
@click.option(
    "--retention-waits",
    is_flag=True,
    help="Brokers delete nothing that the table does not hold (Ottla's brokers only).",
)
@click.option("--read-uncommitted", is_flag=True, help="Also records of open and aborted transactions.")
@warehouse_option
@bootstrap_option
def enable(topic: str, bootstrap: str, warehouse: str, **given: Any) -> None:
    """Make a table of TOPIC. `ottla lake run` fills it.

    \b
    ottla lake enable orders --table orders --value json
    ottla lake enable orders --table sales.orders --format delta --partition-by hour
    """
    with failures_in_a_sentence():
        from ottla.lake.plan.definition import TableDefinition, checked
        from ottla.lake.retention import require_table
        from ottla.lake.tables.schemas import declared_type
        from ottla.lake.topic import log_state
        from ottla.lake.warehouse import Warehouse

        definition = checked(
            TableDefinition(
                topic,
                given["table"],
                given["table_format"],
                given["value"],
                "upsert" if given["upsert"] else "append",
                partition_by=given["partition_by"],
                columns=_pairs("--column", given["columns"]),
                registry=given["registry"] if given["value"] == "registry" else "",
                read_committed=not given["read_uncommitted"],
                start=given["start"],
                file_bytes=given["file_mib"] << 20,
                retention_waits=given["retention_waits"],
                catalog=_catalog(given["catalog"]),
            )
        )
        for text in definition.columns.values():
            declared_type(text)
        log_state(
            cluster_given(bootstrap), topic, read_committed=True
        )  # a topic that is not there is a mistake
        place = Warehouse(warehouse)
        if definition.retention_waits:
            require_table(cluster_given(bootstrap), topic)
        place.enable(definition)
    click.echo(f"{topic} has the {definition.format} table {definition.table} in {place.location}.")
    click.echo(f"Fill it: ottla lake run {topic}")


@lake.command()
@click.argument("topics", nargs=-1)
@click.option("--continuous", is_flag=True, help="Go on until it is stopped, with a commit now and then.")
@click.option(
    "--every",
    "wait_s",
    type=click.FloatRange(0.1),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="With --continuous: how long a record waits for its commit at most.",
)
@click.option(
    "--records",
    type=click.IntRange(1),
    default=5_000_000,
    show_default=True,
    metavar="N",
    help="With --continuous: so many new records are committed at once, without waiting.",
)
@click.option("--accept-loss", is_flag=True, help="Continue after records that retention deleted too early.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where files are written.",
)
@click.option(
    "--master", metavar="URL", help="With --engine spark: where Spark runs.  [default: here, local[*]]"
)
@warehouse_option
@bootstrap_option
def run(topics: tuple[str, ...], bootstrap: str, warehouse: str, **given: Any) -> None:
    """Bring the tables of TOPICS (all, if none is named) up to date.

    \b
    ottla lake run                        all tables, once: for a scheduler
    ottla lake run orders --continuous    a commit every ten minutes, or every five million records
    """
    with failures_in_a_sentence():
        from ottla.lake.plan.next_commit import Cadence
        from ottla.lake.warehouse import Warehouse
        from ottla.lake.writing.job import Limits, TableWriter

        place = Warehouse(warehouse)
        names = topics or tuple(place.topics())
        if not names:
            raise click.ClickException(
                f"No topic has a table in {place.location}: see ottla lake enable --help."
            )
        if given["continuous"] and len(names) > 1:
            raise click.UsageError(
                "--continuous keeps one table: name its topic, and start one command for each"
            )
        engine = _engine(given["engine"], given["master"])
        limits = Limits(accept_loss=given["accept_loss"])
        for name in names:
            writer = TableWriter(place, place.definition(name), cluster_given(bootstrap), engine, limits)
            if given["continuous"]:
                cadence = Cadence(given["records"], int(given["wait_s"] * 1000))
                _report(name, writer, writer.follow(cadence, poll_s=min(1.0, given["wait_s"])))
            else:
                _report(name, writer, writer.run())


def _report(topic: str, writer: TableWriter, commits: Iterable[Committed]) -> None:
    count = rows = 0
    for each in commits:
        count, rows = count + 1, rows + each.rows
        bad = f", {each.dead_letters} dead letters" if each.dead_letters else ""
        click.echo(f"{topic}: {each.rows} rows in {each.files} files{bad}")
    if count == 0:
        click.echo(f"{topic}: the table has everything.")


def _engine(name: str, master: str | None) -> Engine:
    from ottla.lake.writing.engines import LocalEngine, SparkEngine

    if name == "local":
        return LocalEngine()
    from ottla.spark.runtime.sessions import session

    return SparkEngine(session("ottla lake", master=master))


@lake.command()
@click.argument("topics", nargs=-1)
@warehouse_option
@broker_options
def status(topics: tuple[str, ...], bootstrap: str, as_json: bool, warehouse: str) -> None:
    """Show the tables of TOPICS (all, if none is named), and how far each is behind its topic."""
    with failures_in_a_sentence():
        from ottla.lake.status import table_status
        from ottla.lake.warehouse import Warehouse

        place = Warehouse(warehouse)
        cluster = cluster_given(bootstrap)
        found = [table_status(place, cluster, each) for each in topics or tuple(place.topics())]
    if as_json:
        print_json([each.as_json() for each in found])
    elif not found:
        click.echo(f"No topic has a table in {place.location}.")
    else:
        print_table(
            ["topic", "table", "format", "files", "rows", "lag (records)", "lag (seconds)", "state"],
            [each.cells() for each in found],
        )


@lake.command()
@click.argument("topic")
@warehouse_option
@broker_options
def check(topic: str, bootstrap: str, as_json: bool, warehouse: str) -> None:
    """Compare the table of TOPIC with the log, record by record, as far as the table goes.

    Exit code 0: each record is in the table exactly once and unchanged; 1: it is not, or it could not be told.
    """
    with failures_in_a_sentence():
        from ottla.lake.comparison import compare
        from ottla.lake.warehouse import Warehouse

        verdicts = compare(Warehouse(warehouse), cluster_given(bootstrap), topic)
    show_verdicts(topic, verdicts, as_json=as_json)
    if not all(each.is_equal for each in verdicts):
        raise SystemExit(1)


@lake.command("compact")
@click.argument("topics", nargs=-1)
@warehouse_option
def compact_files(topics: tuple[str, ...], warehouse: str) -> None:
    """Merge the small files of the tables of TOPICS (all, if none is named). Writers may run meanwhile."""
    with failures_in_a_sentence():
        from ottla.lake.maintenance import compact
        from ottla.lake.warehouse import Warehouse

        place = Warehouse(warehouse)
        for name in topics or tuple(place.topics()):
            done = compact(place, place.definition(name))
            if done.files_before:
                click.echo(
                    f"{name}: {done.files_before} files became {done.files_after}, with {done.rows} rows"
                )
            else:
                click.echo(f"{name}: no files to merge.")


@lake.command("expire")
@click.argument("topics", nargs=-1)
@click.option(
    "--older-than",
    "older_than_h",
    type=click.FloatRange(0),
    default=24 * 7,
    show_default=True,
    metavar="HOURS",
    help="Snapshots that are older go.",
)
@click.option(
    "--grace",
    "grace_h",
    type=click.FloatRange(0),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Files that nothing refers to go when they are older: longer than a commit takes.",
)
@warehouse_option
def expire_snapshots(topics: tuple[str, ...], older_than_h: float, grace_h: float, warehouse: str) -> None:
    """Forget old snapshots of the tables of TOPICS (all, if none is named), and delete files that nothing needs."""
    with failures_in_a_sentence():
        from ottla.lake.maintenance import expire
        from ottla.lake.warehouse import Warehouse

        place, now_ms = Warehouse(warehouse), time.time() * 1000
        for name in topics or tuple(place.topics()):
            before, grace = (int(now_ms - hours * 3_600_000) for hours in (older_than_h, grace_h))
            count = expire(place, place.definition(name), before, grace)
            click.echo(f"{name}: {count} files deleted")


@lake.command()
@click.argument("topic")
@warehouse_option
@bootstrap_option
def disable(topic: str, bootstrap: str, warehouse: str) -> None:
    """Forget the table of TOPIC. The table itself stays, with all its rows; retention waits for it no more."""
    with failures_in_a_sentence():
        from ottla.lake.retention import forget_table
        from ottla.lake.warehouse import Warehouse

        if Warehouse(warehouse).definition(topic).retention_waits:
            forget_table(cluster_given(bootstrap), topic)
        definition = Warehouse(warehouse).disable(topic)
    click.echo(f"{topic} has no table any more; {definition.table} stays as it is.")


def _pairs(option: str, assignments: tuple[str, ...]) -> dict[str, str]:
    try:
        return parse_assignments(assignments, option)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _catalog(assignments: tuple[str, ...]) -> dict[str, str]:
    properties = _pairs("--catalog", assignments)
    for name in properties:
        if any(word in name.lower() for word in ("secret", "token", "password", "credential")):
            raise click.UsageError(
                f"--catalog {name}: secrets are not kept with a table. Put it into pyiceberg's configuration, as in "
                "PYICEBERG_CATALOG__PROD__TOKEN, and name that catalog: --catalog name=prod"
            )
    return properties
