"""`ottla cluster add`, `drain` and `rebalance`: brokers that come and go, and what they hold meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import click

from ottla.cli.broker_command import ask
from ottla.cli.cluster.options import data_option, refusing
from ottla.client.admin.admin import Admin
from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.control import ask_supervisor, running_state
from ottla.localcluster.rebalance_plan import plan_drain, plan_rebalance
from ottla.localcluster.replica_moves import (
    Progress,
    Replicas,
    cancel_moves,
    carry_out,
    cluster_image,
    prefer_leaders,
)
from ottla.localcluster.state import ClusterError, Condition
from ottla.model import TopicPartition

# A broker that stopped is fenced when its connection has been gone for a moment; a machine may be busy.
_NOTICED_WITHIN_S = 5.0
_RETRY_S = 0.1

_NODE = click.IntRange(0, 2**31 - 1)
Plan: TypeAlias = dict[TopicPartition, tuple[int, ...]]

_throttle = click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="The most bytes per second that each broker may send, and fetch, for what is being moved.",
)
_bootstrap = click.option("--bootstrap", metavar="HOST:PORT", help="Any cluster, by the address of a broker.")
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
    answer = ask_supervisor(data, "add", rack=rack)
    if answer["problem"]:
        raise ClusterError(answer["problem"])
    click.echo(f"Added broker {answer['broker']} (process {answer['pid']}).")
    if with_rebalance:
        _rebalance(_address(data, None), throttle, dry_run=False)
    else:
        click.echo(
            "It gets its share of new partitions. Move its share of the others with: "
            f"ottla cluster rebalance --data {data}"
        )


@click.command()
@data_option
@_bootstrap
@_throttle
@_dry_run
@click.option("--cancel", is_flag=True, help="End the moves that are under way, where they began.")
@refusing
def rebalance(data: Path, bootstrap: str | None, throttle: int | None, dry_run: bool, cancel: bool) -> None:
    """Spread replicas and leaders evenly over the brokers, with as few moves as that takes."""
    address = _address(data, bootstrap)
    if cancel:
        cancelled = ask(address, cancel_moves)
        click.echo(f"Cancelled {len(cancelled)} moves." if cancelled else "Nothing was being moved.")
    else:
        _rebalance(address, throttle, dry_run)


@click.command()
@click.argument("broker", type=_NODE, metavar="ID")
@data_option
@_bootstrap
@_throttle
@_dry_run
@click.option("--remove", is_flag=True, help="Then stop the broker and take it out of the cluster.")
@refusing
def drain(
    broker: int, data: Path, bootstrap: str | None, throttle: int | None, dry_run: bool, remove: bool
) -> None:
    """Move everything that a broker holds to the others."""
    address = _address(data, bootstrap)

    async def plan(admin: Admin) -> Plan:
        return _plan(plan_drain(await cluster_image(admin), [broker]))

    moves = ask(address, plan)
    if not moves:
        click.echo(f"Broker {broker} holds nothing.")
    _carry_out(address, moves, throttle, dry_run)
    if remove and not dry_run:
        _remove(broker, data, bootstrap)


def _rebalance(address: str, throttle: int | None, dry_run: bool) -> None:
    async def plan(admin: Admin) -> tuple[Plan, list[TopicPartition]]:
        image = await cluster_image(admin)
        return _plan(plan_rebalance(image)), _all_partitions(image)

    moves, partitions = ask(address, plan)
    if not moves:
        click.echo("Replicas are spread evenly: there is nothing to move.")
    _carry_out(address, moves, throttle, dry_run)
    if not dry_run:
        ask(address, lambda admin: prefer_leaders(admin, partitions))


def _plan(moves: Iterable[tuple[str, int, Iterable[int]]]) -> Plan:
    return {TopicPartition(topic, index): tuple(replicas) for topic, index, replicas in moves}


def _all_partitions(image: ClusterImage) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, each.index)
        for topic in image.topics_by_name.values()
        for each in topic.partitions
    ]


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
    """Says how far the moves have come: on a terminal in one line, else whenever the count changed."""

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
    """One line about how far it has come."""
    words = f"moved {progress.done} of {progress.total} partitions"
    if not progress.moving:
        return words
    mebi = 1 << 20
    return (
        f"{words}; {progress.moving} under way, "
        f"{progress.copied_bytes / mebi:.1f} of {progress.moving_bytes / mebi:.1f} MiB"
    )


def _remove(broker: int, data: Path, bootstrap: str | None) -> None:
    """Stop it, forget it; where there is no supervisor, stopping is somebody else's."""
    if bootstrap is None:
        state = running_state(data)
        if broker in state.voters:
            raise ClusterError(
                f"Broker {broker} holds nothing any more, but it votes in the quorum, and the voters are fixed: it stays."
            )
        if state.broker(broker).condition.has_process:
            ask_supervisor(data, "stop", broker=broker)
        ask_supervisor(data, "remove", broker=broker)
    address = _address(data, bootstrap)
    ask(address, lambda admin: _unregister(admin, broker))
    click.echo(f"Removed broker {broker}.")


async def _unregister(admin: Admin, broker: int) -> None:
    """Have it forgotten, once the controller has noticed that it is gone: that takes a moment."""
    deadline = asyncio.get_running_loop().time() + _NOTICED_WITHIN_S
    while True:
        try:
            return await admin.unregister_broker(broker)
        except KafkaError as error:
            is_running = error.code is ErrorCode.INVALID_REQUEST
            if not is_running or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_RETRY_S)


def _address(data: Path, bootstrap: str | None) -> str:
    """The brokers to begin with: those at work."""
    if bootstrap is not None:
        return bootstrap
    state = running_state(data)
    at_work = [each for each in state.brokers if each.condition == Condition.RUNNING]
    return ",".join(f"{state.host}:{each.advertised_port}" for each in at_work or state.brokers)
