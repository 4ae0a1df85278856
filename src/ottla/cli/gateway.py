"""`ottla gateway`: the cluster over HTTP and WebSocket. A gateway that cannot start ends with exit code 2."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.broker_command import bootstrap_option, sentence
from ottla.cli.broker_settings import Refusal
from ottla.cli.client_config import properties_given, security_given
from ottla.cli.gateway_process import GRPC_NOT_INSTALLED, NOT_INSTALLED
from ottla.cli.name_values import parse_assignments
from ottla.config import ConfigError
from ottla.config.gateway import PREFIX, GatewayConfig
from ottla.errors import KafkaError
from ottla.version import __version__

if TYPE_CHECKING:
    from ottla.gateway.console.broker_control import BrokerControl
    from ottla.gateway.console.move_planner import MovePlanner
    from ottla.gateway.gateway import Gateway

_LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LIBRARIES: Final = {"h11", "wsproto"}
_GRPC_LIBRARIES: Final = {"grpc", "grpc_health", "grpc_reflection", "google"}


@click.command()
@bootstrap_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="The address to listen on; port 0 for any.  [default: localhost:8082]",
)
@click.option("--grpc", metavar="HOST:PORT", help="Also serve gRPC there.")
@click.option(
    "--console-writes", is_flag=True, help="Let the console at /console change things, as its user may."
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="One setting; repeatable.")
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input ends.")
@click.option(
    "--local-cluster", type=click.Path(path_type=Path), hidden=True, help="The cluster that it ends with."
)
@click.option("-q", "--quiet", "level", flag_value="WARNING", help="Log only warnings and errors.")
@click.option("-v", "--verbose", "level", flag_value="DEBUG", help="Log in detail.")
def gateway(
    bootstrap: str,
    listen: str | None,
    grpc: str | None,
    console_writes: bool,
    assignments: tuple[str, ...],
    until_eof: bool,
    local_cluster: Path | None,
    level: str | None,
) -> None:
    """Serve a cluster over REST, WebSocket and gRPC, with a console for browsers, until Ctrl-C or SIGTERM.

    \b
    Examples:
      ottla gateway
      ottla gateway --bootstrap kafka-1:9092,kafka-2:9092 --listen :8082
      ottla gateway --grpc localhost:9090
      ottla gateway --config client.properties
      ottla gateway --console-writes

    The file of --config has the client properties with which the gateway reaches the cluster, and may have
    settings of the gateway, too; docs/settings.md lists them. docs/gateway.md has what it serves.
    """
    logging.basicConfig(level=level or "INFO", format=_LOG_FORMAT, stream=sys.stderr)
    given = _settings(listen, grpc, assignments, console_writes)
    if until_eof:
        threading.Thread(target=_end_with_input, daemon=True).start()
    _run(bootstrap, given, local_cluster)


def _settings(
    listen: str | None, grpc: str | None, assignments: tuple[str, ...], console_writes: bool
) -> GatewayConfig:
    given = {name: value for name, value in properties_given().items() if name.startswith(PREFIX)}
    try:
        given |= parse_assignments(assignments, "--set")
        if listen is not None:
            given[f"{PREFIX}listen"] = listen
        if grpc is not None:
            given[f"{PREFIX}grpc.listen"] = grpc
        if console_writes:
            given[f"{PREFIX}console"] = "write"
        return GatewayConfig.from_properties(given)
    except ConfigError as error:
        raise Refusal(str(error)) from error


def _run(bootstrap: str, settings: GatewayConfig, local_cluster: Path | None) -> None:
    try:
        from ottla.gateway.gateway import Gateway, run
    except ModuleNotFoundError as error:
        if error.name in _LIBRARIES:
            raise Refusal(NOT_INSTALLED) from error
        raise
    try:
        made = Gateway(bootstrap, security_given(), settings, _control(local_cluster), _moves())
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in _GRPC_LIBRARIES:
            raise Refusal(GRPC_NOT_INSTALLED) from error
        raise
    is_ready = False

    def announce(started: Gateway) -> None:
        nonlocal is_ready
        is_ready = True
        grpc = "" if started.grpc_address is None else f", gRPC at {started.grpc_address}"
        click.echo(f"ottla {__version__} gateway is ready at {started.url}{grpc} (cluster at {bootstrap})")
        if started.console_url is not None:
            click.echo(f"The console is at {started.console_url}")

    try:
        run(made, announce)
    except (OSError, KafkaError, ConfigError, ValueError) as error:
        if is_ready:
            raise
        raise Refusal(refusal(error, settings, bootstrap)) from error


def _control(local_cluster: Path | None) -> BrokerControl | None:
    """How the console starts and stops brokers, and the end of the gateway with them."""
    if local_cluster is None:
        return None
    # Imported here: most gateways have no local cluster.
    from ottla.cli.cluster.local_gateway import LocalBrokers, end_with_cluster

    threading.Thread(target=end_with_cluster, args=[local_cluster], daemon=True).start()
    return LocalBrokers(local_cluster)


def _moves() -> MovePlanner:
    """How the console plans moves of replicas."""
    from ottla.gateway.console.move_planner import MovePlanner
    from ottla.localcluster.replica_moves import cancel_moves, drain_moves, rebalance_moves

    return MovePlanner(drain_moves, rebalance_moves, cancel_moves)


def refusal(error: Exception, settings: GatewayConfig, bootstrap: str) -> str:
    """Why the gateway could not start, in one sentence."""
    if isinstance(error, KafkaError):
        return f"The cluster at {bootstrap} refuses the gateway: {sentence(error)}"
    if isinstance(error, ConnectionError | TimeoutError):
        return f"The cluster cannot be reached: {error}"
    if isinstance(error, socket.gaierror):
        return f"The host of {settings.listen} is not known: choose another with --listen."
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"The address {settings.listen} is in use: choose another with --listen."
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EADDRNOTAVAIL):
        return (
            f"The address {settings.listen} cannot be used ({error.strerror}): choose another with --listen."
        )
    return str(error)


def _end_with_input() -> None:
    """Whoever started this process is gone when its end of the pipe is."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
