"""`ottla mirror`: topics of one cluster copied to another, with the offsets of groups."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from ottla.cli.broker_command import run
from ottla.cli.broker_settings import read_settings_file
from ottla.client.mirror.copying import Mirror, MirrorProgress, Side
from ottla.config import ConfigError
from ottla.model import parse_addresses
from ottla.security.settings import Security

_INTERRUPTED = 130


@click.command()
@click.option("--from", "source", required=True, metavar="HOST:PORT", help="The cluster to copy from.")
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="The cluster to copy to.")
@click.option(
    "--topics", default="", metavar="A,B", help="Which topics.  [default: all that are not internal]"
)
@click.option(
    "--groups",
    default="all",
    show_default=True,
    metavar="A,B|all|none",
    help="Whose committed offsets are translated and taken along.",
)
@click.option(
    "--name",
    default="mirror",
    show_default=True,
    help="The mirror's name: it goes on where one of that name ended, and ends one that runs.",
)
@click.option("--once", is_flag=True, help="Stop at the ends that the source has now.")
@click.option(
    "--interval",
    "interval_ms",
    default=5000,
    show_default=True,
    type=click.IntRange(100),
    metavar="MS",
    help="How often to print progress and to take offsets of groups along.",
)
@click.option(
    "--from-config", metavar="FILE", help="Client properties for the source: security.protocol and so on."
)
@click.option("--to-config", metavar="FILE", help="Client properties for the target.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines instead of sentences.")
def mirror(
    source: str,
    target: str,
    topics: str,
    groups: str,
    name: str,
    once: bool,
    interval_ms: int,
    from_config: str | None,
    to_config: str | None,
    as_json: bool,
) -> None:
    """Copy topics from one cluster to another, Apache Kafka or Ottla, until Ctrl-C.

    Records keep their partitions, keys, headers, timestamps and order. Each is copied once: records and the position
    in the source are one transaction of the target. A mirror that was killed goes on where it was. Offsets differ on
    the two sides; the committed offsets of groups are translated.

    \b
    ottla mirror --from old:9092 --to new:9092 --topics orders,payments
    ottla mirror --from old:9092 --to new:9092 --once --groups none
    """

    def told(progress: MirrorProgress) -> None:
        if as_json:
            click.echo(json.dumps(asdict(progress)))
        else:
            click.echo(
                f"{progress.copied} records copied, {progress.behind} offsets behind, {progress.groups} groups moved"
            )

    copying = Mirror(
        _side(source, from_config, "--from"),
        _side(target, to_config, "--to"),
        name=name,
        topics=_names(topics),
        groups=None if groups == "none" else [] if groups == "all" else _names(groups),
        interval_ms=interval_ms,
        on_progress=told,
    )
    try:
        run(copying.run(once=once))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_INTERRUPTED) from None


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _side(bootstrap: str, path: str | None, option: str) -> Side:
    try:
        parse_addresses(bootstrap)
        return Side(bootstrap, None if path is None else Security.from_properties(read_settings_file(path)))
    except (ConfigError, ValueError) as error:
        raise click.UsageError(f"{option}: {error}") from error
