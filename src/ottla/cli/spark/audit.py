"""`ottla audit`: whether a table, or another topic, holds each record of a topic exactly once. Spark does the
work (`ottla[spark]`).

Exit codes are for scripts: 0 the table is the topic, 1 it is not, 2 it could not be told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from ottla.cli.broker_command import broker_options, print_json, print_table, sentence
from ottla.cli.client_config import security_given, security_properties_given
from ottla.cli.name_values import parse_assignments
from ottla.cli.time_text import parse_moment
from ottla.config import ConfigError
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.spark.audit.job import Bound, Verdict

_NOT_EQUAL: Final = 1
_CANNOT_TELL: Final = 2
_RUNS_SHOWN: Final = 10
_OFFSETS = re.compile(r"\d+:\d+(,\d+:\d+)*")
_CHECKSUMS: Final = ("xxhash64", "crc32", "md5", "sha256")


@click.command()
@click.argument("topic")
@click.argument("table")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="earliest, an offset, offsets by partition (0:100,1:250), or a moment (2025-01-31T08:30).",
)
@click.option(
    "--to",
    "end",
    default="latest",
    show_default=True,
    metavar="WHERE",
    help="latest, table (as far as the table goes), or as with --from; the end itself is not audited.",
)
@click.option("--format", "table_format", metavar="NAME", help="The table's format.  [default: by its files]")
@click.option("--partition-column", default="partition", show_default=True, metavar="NAME")
@click.option("--offset-column", default="offset", show_default=True, metavar="NAME")
@click.option("--topic-column", metavar="NAME", help="Only rows with this topic.  [default: topic, if there]")
@click.option(
    "--value-column", metavar="NAME", help="The record's value, bytes or text.  [default: value, if there]"
)
@click.option("--checksum-column", metavar="NAME", help="A checksum of the value, where it was not kept.")
@click.option(
    "--checksum",
    "checksum_function",
    type=click.Choice(_CHECKSUMS),
    default="xxhash64",
    show_default=True,
    help="Which one: Spark's functions of these names.",
)
@click.option(
    "--origin-headers",
    default="origin.",
    show_default=True,
    metavar="PREFIX",
    help="Of topic:NAME: the headers PREFIXpartition and PREFIXoffset say where a record came from.",
)
@click.option(
    "--origin-key", is_flag=True, help="Of topic:NAME: the key does, as partition:offset, not the headers."
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the source, e.g. kafka.isolation.level=read_uncommitted.",
)
@click.option("--conf", "confs", multiple=True, metavar="NAME=VALUE", help="Of Spark, e.g. of a catalog.")
@click.option("--master", metavar="URL", help="Where Spark runs.  [default: here, local[*]]")
@broker_options
def audit(topic: str, table: str, bootstrap: str, as_json: bool, **given: Any) -> None:
    """Compare TOPIC with TABLE, a directory, a name in Spark's catalog or topic:NAME: is each record in it exactly
    once?

    A table needs the columns partition and offset of the source; with a column value, or a checksum of it,
    the values are compared, too. Records of a topic name their origin in headers; their values are compared with
    --value-column value. Transactions count when they are committed. Exit code 0: equal; 1: not equal; 2: it could
    not be told.

    \b
    ottla audit orders ./tables/orders
    ottla audit orders ./tables/orders --to table
    ottla audit orders sales.orders --from 2025-01-31 --checksum-column crc --checksum crc32
    ottla audit orders topic:receipts
    """
    from ottla.spark.audit.verdict import as_json as verdict_json

    verdict = _verdict(topic, table, bootstrap, given)
    if as_json:
        print_json(verdict_json(verdict))
    else:
        _print(verdict)
    if not verdict.is_equal:
        raise SystemExit(_NOT_EQUAL)


def _verdict(topic: str, table: str, bootstrap: str, given: dict[str, Any]) -> Verdict:
    start, end = _bound("--from", given["start"]), _bound("--to", given["end"])
    options, confs = _pairs("--option", given["options"]), _pairs("--conf", given["confs"])
    options = {f"kafka.{name}": value for name, value in security_properties_given().items()} | options
    try:
        from ottla.spark.audit.job import AuditError, Columns
        from ottla.spark.audit.job import audit as compare
        from ottla.spark.audit.table import settings_for
        from ottla.spark.pipelines.topics import reach_brokers
        from ottla.spark.runtime.jvm_errors import without_incubator_warning
        from ottla.spark.runtime.sessions import session
    except ImportError as error:
        _refuse(f"an audit needs Spark ({error.name} is not there): pip install 'ottla[spark]'")
    confs |= settings_for(table, given["table_format"], confs)
    columns = Columns(
        partition=given["partition_column"],
        offset=given["offset_column"],
        topic=given["topic_column"],
        value=given["value_column"],
        checksum=given["checksum_column"],
        checksum_function=given["checksum_function"],
        origin_headers=given["origin_headers"],
        origin_in_key=given["origin_key"],
    )
    try:
        reach_brokers(bootstrap, security_given())  # better known now than after the start of Spark
        with without_incubator_warning():
            spark = session("ottla audit", master=given["master"], **confs)
        return compare(
            spark,
            topic,
            table,
            bootstrap=bootstrap,
            start=start,
            end=end,
            columns=columns,
            table_format=given["table_format"],
            options=options,
        )
    except KafkaError as error:
        _refuse(sentence(error))
    except (AuditError, ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        _refuse(str(error))


def _refuse(words: str) -> NoReturn:
    click.echo(f"Error: {words}", err=True)
    raise SystemExit(_CANNOT_TELL)


# ---- what was asked for


def _bound(option: str, text: str) -> Bound:
    """An end of the range as it was written; a mistake is one of the command."""
    from ottla.spark.audit.scope import Bound, Edge

    words = {"earliest": Edge.EARLIEST, "latest": Edge.LATEST} | (
        {"table": Edge.TABLE} if option == "--to" else {}
    )
    if text in words:
        return Bound(edge=words[text])
    if text.isascii() and text.isdigit():
        return Bound(offset=int(text))
    if _OFFSETS.fullmatch(text):
        pairs = [each.split(":") for each in text.split(",")]
        return Bound(offsets={int(partition): int(offset) for partition, offset in pairs})
    try:
        return Bound(time_ms=parse_moment(text))
    except ValueError as error:
        known = ", ".join(words)
        raise click.UsageError(
            f"{option}: none of {known}, no offset, no offsets by partition (0:100,1:250), and {error}"
        ) from error


def _pairs(option: str, assignments: tuple[str, ...]) -> dict[str, str]:
    try:
        return parse_assignments(assignments, option)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


# ---- what is shown


def _print(verdict: Verdict) -> None:
    from ottla.spark.audit.verdict import notes
    from ottla.spark.audit.verdict import sentence as verdict_sentence

    click.echo(f"The topic {verdict.topic} beside {verdict.table}:")
    rows = []
    for each in verdict.partitions:
        is_same = each.topic.offset_checksum == each.table.offset_checksum
        rows.append(
            (
                each.partition,
                _range(each.topic.first_offset, each.topic.last_offset),
                each.topic.count,
                each.table.count,
                each.missing,
                each.duplicates,
                each.extra,
                each.altered,
                each.table.offset_checksum_text if is_same or verdict.compared is None else "differs",
                "equal" if each.is_equal else "NOT EQUAL",
            )
        )
    titles = ["partition", "offsets", "records", "rows", "missing", "duplicates", "extra", "altered"]
    print_table([*titles, "checksum", "verdict"], rows)
    for run in verdict.offenders[:_RUNS_SHOWN]:
        click.echo(f"  {run}")
    if len(verdict.offenders) > _RUNS_SHOWN:
        click.echo("  … (the first ones; all that were looked at are in --json)")
    for note in notes(verdict):
        click.echo(f"Note: {note}")
    click.echo(verdict_sentence(verdict))


def _range(first: int | None, last: int | None) -> str | None:
    return None if first is None else f"{first}-{last}"
