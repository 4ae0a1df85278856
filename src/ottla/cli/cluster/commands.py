"""`ottla cluster`: a local cluster of real processes, to develop against, to look at, and to break."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

import click

from ottla.cli.cluster.growth import add, drain, rebalance
from ottla.cli.cluster.options import data_option, refusing
from ottla.cli.cluster.status import status
from ottla.cli.name_values import parse_assignments
from ottla.config import ConfigError
from ottla.localcluster.cluster_plan import DEFAULT_HOST, MOST_BROKERS, plan_cluster
from ottla.localcluster.control import NotRunningError, ask_supervisor, running_state
from ottla.localcluster.fleet import READY_DEADLINE_S
from ottla.localcluster.orphans import end_orphans, orphans
from ottla.localcluster.ports import free_ports
from ottla.localcluster.state import (
    ClusterError,
    ClusterState,
    Condition,
    lock,
    numbers,
    read_state,
    write_state,
)

_SUPERVISOR_LOG: Final = "supervisor.log"
_LOOK_AGAIN_S: Final = 0.05
_NODE = click.IntRange(0, 2**31 - 1)


@click.group()
def cluster() -> None:
    """Run a local cluster of brokers, and break it.

    \b
    ottla cluster up --brokers 3 --data DIR --detach
    ottla cluster status --data DIR
    ottla cluster kill 2 --data DIR
    ottla cluster start 2 --data DIR
    ottla cluster down --data DIR

    Brokers are processes like those of `ottla serve`; what they say is in DIR/broker-N.log. Separate machines need no
    supervisor: give `ottla serve` on each the same controller.quorum.voters and a node.id of its own.
    """


for command in (status, add, drain, rebalance):
    cluster.add_command(command)


@cluster.command()
@data_option
@click.option("--brokers", type=click.IntRange(1, MOST_BROKERS), help="How many.  [default: 3, or as before]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The first broker's port, the others follow; 0 for any that are free.  [default: 9092, or as before]",
)
@click.option("--host", metavar="HOST", help="The address to listen on.  [default: 127.0.0.1, or as before]")
@click.option("--racks", metavar="A,B,...", help="The racks of the brokers, in turn.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A setting of all brokers.")
@click.option("--proxy", is_flag=True, help="Lead all connections through a proxy, so that they can be cut.")
@click.option("--detach", is_flag=True, help="Run on in the background; end with: ottla cluster down")
@click.option(
    "--until-eof", is_flag=True, help="End when standard input ends: for programs that start a cluster."
)
@refusing
def up(
    data: Path,
    brokers: int | None,
    port: int | None,
    host: str | None,
    racks: str | None,
    assignments: tuple[str, ...],
    proxy: bool,
    detach: bool,
    until_eof: bool,
) -> None:
    """Start a cluster, new or as it was, and run it until Ctrl-C.

    The first three brokers vote in the metadata quorum, or all five of five; the others hold topics. Unless told otherwise,
    new topics get three replicas, two of which must have a record before acks=all is answered.
    """
    held = lock(data)
    if held is None:
        raise ClusterError(_running_sentence(data))
    with held:  # a supervisor that is detached has a copy of its own
        former = read_state(data)
        _refuse_orphans(data, former)

        def ports(count: int, taken: Sequence[int]) -> list[int]:
            return free_ports(host or (former.host if former else DEFAULT_HOST), count, taken)

        state = plan_cluster(
            former,
            brokers=brokers,
            host=host,
            port=port,
            racks=[rack.strip() for rack in racks.split(",") if rack.strip()] if racks else (),
            settings=_settings(assignments),
            has_proxy=proxy,
            free_ports=ports,
        )
        write_state(data, state)
        if detach:
            _detach(data, held)
        else:
            _run_here(data, state, sys.stdin if until_eof else None)


@cluster.command()
@data_option
@refusing
def down(data: Path) -> None:
    """Stop the whole cluster, also one whose supervisor is gone."""
    try:
        ask_supervisor(data, "down")
    except NotRunningError:
        state = read_state(data)
        left = orphans(state) if state else []
        if state is None or not left:
            raise
        end_orphans(data, state)
        click.echo(f"The supervisor was gone; stopped the brokers that it left: {numbers(left)}.")
    else:
        click.echo(f"The cluster is stopped. Start it again, as it was, with: ottla cluster up --data {data}")


@cluster.command()
@click.argument("broker", type=_NODE, metavar="ID")
@data_option
@refusing
def kill(broker: int, data: Path) -> None:
    """Kill a broker as a crash would (SIGKILL)."""
    answer = ask_supervisor(data, "kill", broker=broker)
    _say(f"Killed broker {broker} (process {answer['pid']}).", answer)


@cluster.command()
@click.argument("broker", type=_NODE, metavar="[ID]", required=False)
@click.option("--all", "everyone", is_flag=True, help="All brokers, one after the other.")
@data_option
@refusing
def stop(broker: int | None, everyone: bool, data: Path) -> None:
    """Stop a broker as its operator would (SIGTERM): it hands its partitions over first."""
    if (broker is None) == (not everyone):
        raise click.UsageError("name one broker, or give --all")
    state = running_state(data)
    ids = (
        [each.node_id for each in state.brokers if each.condition.has_process] if broker is None else [broker]
    )
    for node_id in ids:
        answer = ask_supervisor(data, "stop", broker=node_id)
        how = "Stopped" if answer["has_stopped"] else "Broker did not stop in time; killed"
        _say(f"{how} broker {node_id} (process {answer['pid']}).", answer if node_id == ids[-1] else {})


@cluster.command()
@click.argument("brokers", type=_NODE, metavar="ID...", nargs=-1, required=True)
@click.option("--no-wait", is_flag=True, help="Do not wait until it is ready.")
@data_option
@refusing
def start(brokers: tuple[int, ...], no_wait: bool, data: Path) -> None:
    """Start brokers that were stopped, were killed, or died."""
    for each in brokers[:-1]:
        ask_supervisor(data, "start", broker=each, wait=False)
    last = brokers[-1]
    _say_started(ask_supervisor(data, "start", broker=last, wait=not no_wait), brokers)


@cluster.command()
@click.argument("broker", type=_NODE, metavar="ID")
@data_option
@refusing
def pause(broker: int, data: Path) -> None:
    """Hold a broker's process (SIGSTOP): it lives, keeps its connections, and does nothing."""
    answer = ask_supervisor(data, "pause", broker=broker)
    _say(f"Paused broker {broker} (process {answer['pid']}).", answer)


@cluster.command()
@click.argument("broker", type=_NODE, metavar="ID")
@data_option
@refusing
def resume(broker: int, data: Path) -> None:
    """Let a paused broker go on (SIGCONT)."""
    answer = ask_supervisor(data, "resume", broker=broker)
    _say(f"Broker {broker} goes on (process {answer['pid']}).", answer)


@cluster.command()
@click.argument("broker", type=_NODE, metavar="ID")
@click.option("--from", "other", type=_NODE, metavar="OTHER", help="Only from this broker.")
@click.option("--one-way", is_flag=True, help="It still hears the others; they do not hear it.")
@click.option("--clients", is_flag=True, help="Also from clients.")
@click.option("--slow", type=click.FloatRange(min=0), metavar="MS", help="Not cut, but slow by so many ms.")
@data_option
@refusing
def partition(
    broker: int, other: int | None, one_way: bool, clients: bool, slow: float | None, data: Path
) -> None:
    """Cut a broker off from the others (needs a cluster that was started with --proxy).

    What is sent over a cut waits, and arrives when it heals.
    """
    if slow is not None:
        answer = ask_supervisor(data, "slow", broker=broker, other=other, ms=slow)
    else:
        answer = ask_supervisor(
            data, "cut", broker=broker, other=other, one_way=one_way, clients=clients and other is None
        )
    click.echo(
        f"The network now: {'; '.join(answer['cuts'])}. Heal it with: ottla cluster heal --data {data}"
    )


@cluster.command()
@click.argument("broker", type=_NODE, metavar="[ID]", required=False)
@data_option
@refusing
def heal(broker: int | None, data: Path) -> None:
    """Make the network whole again, or that of one broker."""
    answer = ask_supervisor(data, "heal", broker=broker)
    click.echo(
        f"Healed. Still broken: {'; '.join(answer['cuts'])}." if answer["cuts"] else "The network is whole."
    )


def _run_here(data: Path, state: ClusterState, ends_with: IO[Any] | None) -> None:
    from ottla.localcluster.supervisor import Supervisor

    async def run() -> None:
        await Supervisor(data, state, click.echo).run(ends_with=ends_with)

    asyncio.run(run())


def _detach(data: Path, held: IO[str]) -> None:
    """Start a supervisor of its own, which inherits the lock, and wait until the cluster is ready."""
    log = data / _SUPERVISOR_LOG
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.localcluster.supervisor", str(data)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[held.fileno()],
        )
    deadline = time.monotonic() + READY_DEADLINE_S
    while not _is_up(data) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)
    if process.poll() is not None:
        told = log.read_text(errors="replace").rstrip().removeprefix("Error: ")
        raise ClusterError(f"The cluster did not start: {told}")
    click.echo(log.read_text(errors="replace").rstrip())


def _is_up(data: Path) -> bool:
    state = read_state(data)
    return state is not None and all(each.condition == Condition.RUNNING for each in state.brokers)


def _refuse_orphans(data: Path, former: ClusterState | None) -> None:
    left = orphans(former) if former else []
    if left:
        raise ClusterError(
            f"The supervisor of {data} is gone, and its brokers {numbers(left)} still run. "
            f"End them with: ottla cluster down --data {data}"
        )


def _running_sentence(data: Path) -> str:
    state = read_state(data)
    door = state.supervisor if state else None
    whose = f" (supervisor: process {door.pid})" if door else ""
    return (
        f"{data} belongs to a cluster that runs{whose}. "
        f"Look at it with: ottla cluster status --data {data}; end it with: ottla cluster down --data {data}"
    )


def _settings(assignments: Sequence[str]) -> dict[str, str]:
    try:
        return dict(parse_assignments(assignments, "--set"))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _say(text: str, answer: dict[str, Any]) -> None:
    click.echo(text)
    if answer.get("quorum"):
        click.echo(answer["quorum"], err=True)


def _say_started(answer: dict[str, Any], brokers: Sequence[int]) -> None:
    if answer["problem"]:
        raise ClusterError(answer["problem"])
    count = "Brokers" if len(brokers) > 1 else "Broker"
    click.echo(f"{count} {numbers(brokers)} started.")
