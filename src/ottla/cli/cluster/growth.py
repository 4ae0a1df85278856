"""`ottla cluster add`, `rebalance` and `drain`: brokers join and leave, and replicas move between them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.cli.broker_command import ask
from ottla.cli.cluster.options import address_of, bootstrap_options, data_option, node_id, refusing
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.replica_moves import (
    Progress,
    Replicas,
    cancel_moves,
    carry_out,
    drain_moves,
    prefer_leaders,
    rebalance_moves,
    unregister,
)
from ottla.localcluster.state import ClusterError

_throttle = click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="The most bytes per second that each broker may send, and fetch, for what is being moved.",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what would be moved.")


@click.command()
@data_option
@click.option("--rack", metavar="NAME", help="The rack of the new broker.")
@click.option(
    "--rebalance", "with_rebalance", is_flag=True, help="Then move a fair share of the replicas to it."
)
@_throttle
@refusing
def add(data: Path, rack: str | None, with_rebalance: bool, throttle: int | None) -> None:
    """Add a broker to a cluster that runs."""
    added = LocalCluster(data).add_broker(rack)
    click.echo(f"Added broker {added.node_id} (process {added.pid}).")
    if with_rebalance:
        _rebalance(address_of(data, None), throttle, dry_run=False)
    else:
        click.echo(
            "It gets its share of new partitions. Move its share of the others with: "
            f"ottla cluster rebalance --data {data}"
        )


@click.command()
@data_option
@bootstrap_options
@_throttle
@_dry_run
@click.option("--cancel", is_flag=True, help="End the moves that are under way, where they began.")
@refusing
def rebalance(data: Path, bootstrap: str | None, throttle: int | None, dry_run: bool, cancel: bool) -> None:
    """Spread replicas and leaders evenly over the brokers, with as few moves as that takes."""
    address = address_of(data, bootstrap)
    if cancel:
        cancelled = ask(address, cancel_moves)
        click.echo(f"Cancelled {len(cancelled)} moves." if cancelled else "Nothing was being moved.")
    else:
        _rebalance(address, throttle, dry_run)


@click.command()
@click.argument("broker", type=node_id, metavar="ID")
@data_option
@bootstrap_options
@_throttle
@_dry_run
@click.option("--remove", is_flag=True, help="Then stop the broker and take it out of the cluster.")
@refusing
def drain(
    broker: int, data: Path, bootstrap: str | None, throttle: int | None, dry_run: bool, remove: bool
) -> None:
    """Move everything that a broker holds to the others."""
    address = address_of(data, bootstrap)
    moves = ask(address, lambda admin: drain_moves(admin, broker))
    if not moves:
        click.echo(f"Broker {broker} holds nothing.")
    _carry_out(address, moves, throttle, dry_run)
    if remove and not dry_run:
        _remove(broker, data, bootstrap)


def _rebalance(address: str, throttle: int | None, dry_run: bool) -> None:
    moves, partitions = ask(address, rebalance_moves)
    if not moves:
        click.echo("Replicas are spread evenly: there is nothing to move.")
    _carry_out(address, moves, throttle, dry_run)
    if not dry_run:
        ask(address, lambda admin: prefer_leaders(admin, partitions))


def _carry_out(address: str, moves: Replicas, throttle: int | None, dry_run: bool) -> None:
    if dry_run:
        for partition, replicas in moves.items():
            click.echo(f"{partition} to {','.join(map(str, replicas))}")
        return
    if not moves:
        return
    show = ProgressLine()
    ask(address, lambda admin: carry_out(admin, moves, throttle=throttle, on_progress=show))
    show.end()


class ProgressLine:
    """Shows the progress of moves: on a terminal in one line, elsewhere a line whenever the count changes."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, progress: Progress) -> None:
        text = progress_words(progress)
        if sys.stdout.isatty():
            click.echo(f"\r{text.ljust(len(self._said))}", nl=False)
        elif text.partition(";")[0] != self._said.partition(";")[0]:
            click.echo(text)
        self._said = text

    def end(self) -> None:
        if sys.stdout.isatty():
            click.echo()


def progress_words(progress: Progress) -> str:
    """One line about the progress of moves."""
    words = f"moved {progress.done} of {progress.total} partitions"
    if not progress.moving:
        return words
    mebi = 1 << 20
    return (
        f"{words}; {progress.moving} under way, "
        f"{progress.copied_bytes / mebi:.1f} of {progress.moving_bytes / mebi:.1f} MiB"
    )


def _remove(broker: int, data: Path, bootstrap: str | None) -> None:
    """Take a drained broker out, after stopping it where the cluster is a local one."""
    if bootstrap is None:
        cluster = LocalCluster(data)
        state = cluster.running_state
        if broker in state.voters:
            raise ClusterError(
                f"Broker {broker} holds nothing any more, but it votes in the quorum: it stays. Other nodes are made voters with "
                "ottla cluster voters."
            )
        if state.broker(broker).condition.has_process:
            cluster.stop_broker(broker)
        cluster.remove_broker(broker)
    ask(address_of(data, bootstrap), lambda admin: unregister(admin, broker))
    click.echo(f"Removed broker {broker}.")
