"""`ottla cluster`: a local cluster of real processes, to develop against, to look at, and to break."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

import click

from ottla.cli.broker_settings import http_listener
from ottla.cli.cluster.growth import add, drain, rebalance
from ottla.cli.cluster.options import data_option, node_id, refusing
from ottla.cli.cluster.recover import recover
from ottla.cli.cluster.status import status
from ottla.cli.cluster.voters import voters
from ottla.cli.name_values import parse_assignments
from ottla.config import DEFAULT_MEMORY_BYTES, ConfigError
from ottla.localcluster.cluster import LocalCluster, ProcessOutcome
from ottla.localcluster.launch import claim, launch
from ottla.localcluster.plan.cluster import HTTP_SETTING, MEMORY_SETTING, MOST_BROKERS, ClusterOptions
from ottla.localcluster.state import ClusterState, numbers
from ottla.localcluster.supervisor import READY, Supervisor

# All brokers lose power together with their machine: without this every partition would wait for its user.
_NEW_CLUSTER: Final = {"unclean.recovery.strategy": "Balanced"}


@click.group()
def cluster() -> None:
    """Run a local cluster of brokers, and break it.

    \b
    ottla cluster up --brokers 3 --data DIR --detach
    ottla cluster status --data DIR
    ottla cluster kill 2 --data DIR
    ottla cluster start 2 --data DIR
    ottla cluster down --data DIR

    Brokers are processes like those of `ottla serve`; what they say is in DIR/broker-N.log. Separate machines
    need no supervisor: give `ottla serve` on each the same controller.quorum.voters and a node.id of its own.
    """


for command in (status, add, drain, rebalance, recover, voters):
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
@click.option(
    "--memory",
    is_flag=True,
    help="Keep everything in memory, at most 1 GiB for each broker: a broker that restarts is empty.",
)
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Where broker 1 serves /metrics and /health, the others at the ports after it; 0 for any free ports.",
)
@click.option("--racks", metavar="A,B,...", help="The racks of the brokers, in turn.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A setting of all brokers.")
@click.option(
    "--secure",
    is_flag=True,
    help="Clients log in over TLS, brokers have certificates, and rights are checked (DIR/security).",
)
@click.option("--proxy", is_flag=True, help="Lead all connections through a proxy, so that they can be cut.")
@click.option(
    "--gateway",
    is_flag=False,
    flag_value="localhost:8082",
    metavar="[HOST:PORT]",
    help="Also serve REST, WebSocket and a console that starts and stops brokers.  [without an address: localhost:8082]",
)
@click.option("--console-writes", is_flag=True, help="Let the console of --gateway change things.")
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
    memory: bool,
    http: str | None,
    racks: str | None,
    assignments: tuple[str, ...],
    secure: bool,
    proxy: bool,
    gateway: str | None,
    console_writes: bool,
    detach: bool,
    until_eof: bool,
) -> None:
    """Start a cluster, new or as it was, and run it until Ctrl-C.

    The first three brokers vote in the metadata quorum, or all five of five; the others hold topics. Unless
    told otherwise, new topics get three replicas, two of which must have a record before acks=all is
    answered. When the machine has lost power, each partition goes on with the most complete of its replicas
    (unclean.recovery.strategy=Balanced).

    With --secure, DIR/security gets what `ottla security init` makes, unless it is there. A cluster that was
    secured once stays so.
    """
    options = ClusterOptions(
        brokers=brokers,
        host=host,
        port=port,
        racks=[rack.strip() for rack in racks.split(",") if rack.strip()] if racks else (),
        settings=_settings(assignments, memory, http),
        has_proxy=proxy,
        new_cluster_settings=_NEW_CLUSTER,
        is_secure=secure,
    )
    if memory:
        click.echo(
            "All data is in memory: a broker that restarts is empty, and a cluster that stops loses everything.",
            err=True,
        )
    beside = _gateway_beside(data, gateway, console_writes, detach)
    if detach:
        launch(data, options, is_detached=True)
        click.echo(LocalCluster(data).said().rstrip())
        beside()
        return
    with claim(data, options) as claimed:
        _run_here(data, claimed.state, sys.stdin if until_eof else None, beside)


@cluster.command()
@data_option
@refusing
def down(data: Path) -> None:
    """Stop the whole cluster, also one whose supervisor is gone."""
    stopped = LocalCluster(data)
    is_in_memory = MEMORY_SETTING in stopped.state.settings
    left = stopped.down()
    if is_in_memory:
        click.echo("The cluster is stopped, and its data is gone: it was in memory.")
    elif left:
        click.echo(f"The supervisor was gone; stopped the brokers that it left: {numbers(left)}.")
    else:
        click.echo(f"The cluster is stopped. Start it again, as it was, with: ottla cluster up --data {data}")


@cluster.command()
@click.argument("broker", type=node_id, metavar="ID")
@data_option
@refusing
def kill(broker: int, data: Path) -> None:
    """Kill a broker as a crash would (SIGKILL)."""
    killed = LocalCluster(data).kill(broker)
    _say(f"Killed broker {broker} (process {killed.pid}).", killed)


@cluster.command()
@click.argument("broker", type=node_id, metavar="[ID]", required=False)
@click.option("--all", "everyone", is_flag=True, help="All brokers, one after the other.")
@data_option
@refusing
def stop(broker: int | None, everyone: bool, data: Path) -> None:
    """Stop a broker as its operator would (SIGTERM): it hands its partitions over first."""
    if (broker is None) == (not everyone):
        raise click.UsageError("name one broker, or give --all")
    running = LocalCluster(data)
    state = running.running_state
    ids = (
        [each.node_id for each in state.brokers if each.condition.has_process] if broker is None else [broker]
    )
    for each in ids:
        stopped = running.stop_broker(each)
        how = "Stopped" if stopped.has_stopped else "Broker did not stop in time; killed"
        _say(f"{how} broker {each} (process {stopped.pid}).", stopped if each == ids[-1] else None)


@cluster.command()
@click.argument("brokers", type=node_id, metavar="ID...", nargs=-1, required=True)
@click.option("--no-wait", is_flag=True, help="Do not wait until it is ready.")
@data_option
@refusing
def start(brokers: tuple[int, ...], no_wait: bool, data: Path) -> None:
    """Start brokers that were stopped, were killed, or died."""
    running = LocalCluster(data)
    for each in brokers[:-1]:
        running.start_broker(each, wait=False)
    running.start_broker(brokers[-1], wait=not no_wait)
    count = "Brokers" if len(brokers) > 1 else "Broker"
    click.echo(f"{count} {numbers(brokers)} started.")


@cluster.command()
@click.argument("broker", type=node_id, metavar="ID")
@data_option
@refusing
def pause(broker: int, data: Path) -> None:
    """Hold a broker's process (SIGSTOP): it lives, keeps its connections, and does nothing."""
    paused = LocalCluster(data).pause(broker)
    _say(f"Paused broker {broker} (process {paused.pid}).", paused)


@cluster.command()
@click.argument("broker", type=node_id, metavar="ID")
@data_option
@refusing
def resume(broker: int, data: Path) -> None:
    """Let a paused broker go on (SIGCONT)."""
    resumed = LocalCluster(data).resume(broker)
    _say(f"Broker {broker} goes on (process {resumed.pid}).", resumed)


@cluster.command()
@click.argument("broker", type=node_id, metavar="ID")
@click.option("--from", "other", type=node_id, metavar="OTHER", help="Only from this broker.")
@click.option("--one-way", is_flag=True, help="It still hears the others; they do not hear it.")
@click.option("--clients", is_flag=True, help="Also from clients.")
@click.option(
    "--slow",
    type=click.FloatRange(min=0),
    metavar="MS",
    help="Do not cut the connection; delay it by this many ms.",
)
@data_option
@refusing
def partition(
    broker: int, other: int | None, one_way: bool, clients: bool, slow: float | None, data: Path
) -> None:
    """Cut a broker off from the others (needs a cluster that was started with --proxy).

    Bytes that are sent over a cut connection wait, and arrive when it heals.
    """
    running = LocalCluster(data)
    if slow is not None:
        cuts = running.slow(broker, slow, other)
    else:
        cuts = running.cut(broker, other, one_way=one_way, clients=clients and other is None)
    click.echo(f"The network now: {'; '.join(cuts)}. Heal it with: ottla cluster heal --data {data}")


@cluster.command()
@click.argument("broker", type=node_id, metavar="[ID]", required=False)
@data_option
@refusing
def heal(broker: int | None, data: Path) -> None:
    """Make the network whole again, or that of one broker."""
    cuts = LocalCluster(data).heal(broker)
    click.echo(f"Healed. Still broken: {'; '.join(cuts)}." if cuts else "The network is whole.")


def _gateway_beside(data: Path, listen: str | None, console_writes: bool, detach: bool) -> Callable[[], None]:
    """What to do when the cluster is ready: start a gateway, or nothing."""
    if listen is None:
        if console_writes:
            raise click.UsageError("--console-writes is served by a gateway: add --gateway.")
        return lambda: None
    # Imported here: most clusters have no gateway.
    from ottla.cli.cluster.local_gateway import check_installed, gateway_said, start_gateway

    check_installed()

    def start() -> None:
        start_gateway(data, listen, console_writes=console_writes, is_detached=detach)
        if detach:
            click.echo(gateway_said(data))

    return start


def _run_here(
    data: Path, state: ClusterState, ends_with: IO[Any] | None, when_ready: Callable[[], None]
) -> None:
    """Run the supervisor in this process."""

    def say(text: str) -> None:
        click.echo(text)
        if text.startswith(READY):
            when_ready()

    async def run() -> None:
        await Supervisor(data, state, say).run(ends_with=ends_with)

    asyncio.run(run())


def _settings(assignments: Sequence[str], memory: bool, http: str | None) -> dict[str, str]:
    own = {MEMORY_SETTING: str(DEFAULT_MEMORY_BYTES)} if memory else {}
    try:
        if http is not None:
            own[HTTP_SETTING] = http_listener(http)
        return own | parse_assignments(assignments, "--set")
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _say(text: str, outcome: ProcessOutcome | None) -> None:
    click.echo(text)
    if outcome is not None and outcome.quorum:
        click.echo(outcome.quorum, err=True)
