"""`ottla tiers`: list, describe, check and repair what the object store holds."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from ottla.cli.broker_command import CLIENT_ID, TIMEOUT_MS, broker_options, print_json, print_table, run
from ottla.cli.client_config import security_given
from ottla.cli.tiers.store_check import StoreReport, compare
from ottla.client.admin.remote_logs import RemoteLogs, describe_remote_logs
from ottla.log.files.uuids import uuid_text
from ottla.runtime.object_store import ObjectStore, StoreError
from ottla.runtime.stores import ObstoreStores


@click.group()
def tiers() -> None:
    """Tiered storage: what the object store holds of each topic, and whether it is whole."""


@tiers.command("list")
@click.argument("topic", required=False)
@broker_options
def list_partitions(topic: str | None, bootstrap: str, as_json: bool) -> None:
    """Show each partition with tiered storage: where its log, its local part and its remote part end.

    "not copied" counts records of closed segments that the store does not have yet.

    \b
    ottla tiers list
    ottla tiers list orders
    """
    known = _known(bootstrap, topic)
    if as_json:
        print_json({"store": known.store_url, "problems": known.problems, "partitions": _as_json(known)})
        return
    _tell_store(known)
    rows = [
        (
            each.topic + (" (deleted)" if each.is_deleted else ""),
            each.partition,
            each.leader,
            each.log_start_offset,
            each.local_start_offset,
            each.remote_next_offset,
            each.segment_count,
            each.size_bytes,
            each.lag_records,
            each.problem or "",
        )
        for each in known.partitions
    ]
    columns = ["topic", "partition", "leader", "log start", "local start", "remote end"]
    print_table([*columns, "segments", "bytes", "not copied", "problem"], rows)


@tiers.command()
@click.argument("topic")
@broker_options
def describe(topic: str, bootstrap: str, as_json: bool) -> None:
    """Show every segment of a topic that has objects in the store."""
    known = _known(bootstrap, topic, has_segments=True)
    if not known.partitions:
        raise click.ClickException(f"'{topic}' has no tiered storage, and nothing in the store.")
    if as_json:
        print_json({"store": known.store_url, "problems": known.problems, "partitions": _as_json(known)})
        return
    _tell_store(known)
    rows = [
        (
            each.partition,
            segment.base_offset,
            segment.next_offset,
            segment.state,
            segment.size_bytes,
            uuid_text(segment.segment_id),
            " ".join(one.kind for one in segment.objects),
        )
        for each in known.partitions
        for segment in each.segments
    ]
    print_table(["partition", "from", "to", "state", "bytes", "segment id", "objects"], rows)


def _store_options(command: Any) -> Any:
    command = click.option(
        "--store",
        metavar="URL",
        help="The store, if this machine reaches it by another address than the brokers do.",
    )(command)
    return broker_options(command)


@tiers.command()
@_store_options
@click.option("--deep", is_flag=True, help="Read every object, and compare its checksum.")
def check(store: str | None, deep: bool, bootstrap: str, as_json: bool) -> None:
    """Compare the objects of the store with the metadata: missing, damaged and orphaned ones.

    The store is reached from this machine, with the credentials of this machine. Exit code 1 if something is wrong.

    \b
    ottla tiers check
    ottla tiers check --deep
    """
    _, report = _compared(bootstrap, store, deep=deep)
    if as_json:
        print_json(asdict(report))
    else:
        _tell(report)
    raise SystemExit(0 if report.is_healthy else 1)


@tiers.command()
@_store_options
@click.option(
    "--older-than",
    metavar="MINUTES",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    help="Leave younger orphans alone: a leader may be writing them.",
)
@click.option("--yes", is_flag=True, help="Delete without asking.")
def repair(store: str | None, older_than: int, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete orphans: objects that no metadata names, left by copies that were given up.

    Missing and damaged objects cannot be brought back; they are only named.
    """
    opened, report = _compared(bootstrap, store, deep=False)
    before_ms = int(time.time() * 1000) - older_than * 60_000
    going = [each for each in report.orphans if each.modified_ms <= before_ms]
    if going and not yes:
        click.confirm(f"Delete {len(going)} orphans?", abort=True, err=True)
    try:
        opened.delete([each.name for each in going])
    except StoreError as problem:
        raise click.ClickException(str(problem)) from problem
    kept = len(report.orphans) - len(going)
    if as_json:
        print_json({"deleted": [each.name for each in going], "kept": kept, "damaged": report.damaged})
    else:
        young = f" {kept} orphans are younger than {older_than} minutes and stay." if kept else ""
        click.echo(f"Deleted {len(going)} orphans.{young}")
        for name, reason in report.damaged:
            click.echo(f"{name} {reason}")
    raise SystemExit(1 if report.damaged else 0)


def _compared(bootstrap: str, url: str | None, *, deep: bool) -> tuple[ObjectStore, StoreReport]:
    address = url or _known(bootstrap, None).store_url
    assert address is not None, "a broker with tiered storage has a store"
    try:
        store = ObstoreStores().open(address)
        listed = list(store.list(""))
        return store, compare(store, listed, _known(bootstrap, None, has_segments=True), deep=deep)
    except StoreError as problem:
        raise click.ClickException(f"The store {address} cannot be read from here: {problem}") from problem


def _known(bootstrap: str, topic: str | None, *, has_segments: bool = False) -> RemoteLogs:
    return run(
        describe_remote_logs(
            bootstrap,
            client_id=CLIENT_ID,
            timeout_ms=TIMEOUT_MS,
            security=security_given(),
            topics=None if topic is None else [topic],
            has_segments=has_segments,
        )
    )


def _as_json(known: RemoteLogs) -> list[dict[str, Any]]:
    return [{**asdict(each), "lag_records": each.lag_records} for each in known.partitions]


def _tell_store(known: RemoteLogs) -> None:
    click.echo(f"Store: {known.store_url}")
    for node_id, problem in known.problems.items():
        click.echo(f"Broker {node_id} cannot use it: {problem}")


def _tell(report: StoreReport) -> None:
    for name, problem in report.damaged:
        click.echo(f"{name} {problem}")
    for orphan in report.orphans:
        click.echo(f"{orphan.name} is an orphan of {orphan.size_bytes} bytes")
    others = f" {report.strangers} other objects were passed over." if report.strangers else ""
    click.echo(
        f"{report.objects} objects with {report.size_bytes} bytes: {len(report.damaged)} missing or damaged, "
        f"{len(report.orphans)} orphans.{others}"
    )
    if report.orphans:
        click.echo("ottla tiers repair deletes the orphans.")
