"""`ottla serve`: gather the settings, refuse what cannot work in one sentence, run the broker.

A broker that cannot start ends with exit code 2. The broker's own modules are imported only after
the settings have been understood: a person who mistyped one should not wait for them.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.broker_settings import Refusal, broker_config
from ottla.cli.secured_broker import SecuredBroker
from ottla.config import BrokerConfig, ConfigError, Listener
from ottla.errors import KafkaError
from ottla.version import __version__

if TYPE_CHECKING:
    from ottla.cli.gateway_process import GatewayProcess
    from ottla.server.broker import Broker

_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@click.command()
@click.option("--data", metavar="DIR", help="Where the data is kept.  [default: ./ottla-data]")
@click.option(
    "--memory", is_flag=True, help="Keep everything in memory, nothing on disk: a restart loses the data."
)
@click.option("--port", metavar="N", help="The port to listen on; 0 for any that is free.  [default: 9092]")
@click.option("--host", metavar="HOST", help="The address to listen on.  [default: localhost]")
@click.option("--node-id", metavar="N", help="The number of this node.  [default: 1]")
@click.option(
    "--config",
    "files",
    metavar="FILE",
    multiple=True,
    help="A file of settings, one NAME=VALUE on a line; repeatable, the last one counts.",
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="One setting; repeatable.")
@click.option(
    "--secure",
    is_flag=True,
    help="Clients log in over TLS, and rights are checked; makes DIR/security if it is not there.",
)
@click.option(
    "--http", metavar="[HOST:]PORT", help="Serve /metrics, /health and /debug there; 0 for any free port."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Lines for people, or JSON objects for programs.  [default: text]",
)
@click.option(
    "--gateway",
    is_flag=False,
    flag_value="localhost:8082",
    metavar="[HOST:PORT]",
    help="Also serve REST, WebSocket and a console, by a gateway beside the broker.  [without an address: localhost:8082]",
)
@click.option("--grpc", metavar="HOST:PORT", help="With --gateway: also serve gRPC there.")
@click.option("--console-writes", is_flag=True, help="Let the console of --gateway change things.")
@click.option("-q", "--quiet", "level", flag_value="WARNING", help="Log only warnings and errors.")
@click.option("-v", "--verbose", "level", flag_value="DEBUG", help="Log in detail.")
@click.pass_context
def serve(
    context: click.Context,
    data: str | None,
    memory: bool,
    port: str | None,
    host: str | None,
    node_id: str | None,
    files: tuple[str, ...],
    assignments: tuple[str, ...],
    secure: bool,
    http: str | None,
    log_format: str,
    gateway: str | None,
    grpc: str | None,
    console_writes: bool,
    level: str | None,
) -> None:
    """Run a broker until it is stopped with Ctrl-C or SIGTERM.

    \b
    Examples:
      ottla serve
      ottla serve --data /var/lib/ottla --port 9093
      ottla serve --secure
      ottla serve --gateway
      ottla serve --memory --set ottla.memory.bytes=268435456
      ottla serve --http 9644 --log-format json
      ottla serve --set log.segment.bytes=104857600 --set num.partitions=3
      OTTLA_NUM_PARTITIONS=3 ottla serve --config broker.properties

    Settings have Apache Kafka's names; docs/settings.md lists them. A flag comes before the environment
    (OTTLA_ and the name in capitals, with _ for each dot), the environment before the file, the file before
    the default.
    """
    started = context.obj if isinstance(context.obj, float) else time.perf_counter()
    _set_up_logging(level or "INFO", log_format)
    try:
        secured = SecuredBroker(data, host) if secure else None
        config = broker_config(
            files,
            assignments,
            data=data,
            memory=memory,
            host=host,
            port=port,
            node_id=node_id,
            secured=None if secured is None else secured.settings,
            http=http,
        )
        beside = _gateway_beside(gateway, grpc, config, secured, console_writes)
    except ConfigError as error:
        raise Refusal(str(error)) from error
    _run(config, started, secured, beside)


def _gateway_beside(
    listen: str | None,
    grpc: str | None,
    config: BrokerConfig,
    secured: SecuredBroker | None,
    console_writes: bool,
) -> GatewayProcess | None:
    if listen is None:
        for option, given in (("--grpc", grpc), ("--console-writes", console_writes)):
            if given:
                raise ConfigError(f"{option} is served by a gateway: add --gateway.")
        return None
    # Imported here: most brokers have no gateway beside them.
    from ottla.cli.gateway_process import GatewayProcess

    options = () if secured is None else secured.gateway_options()
    return GatewayProcess(listen, config.node.listener, grpc, options, console_writes=console_writes)


def _set_up_logging(level: str, log_format: str) -> None:
    if log_format == "text":
        logging.basicConfig(level=level, format=_LOG_FORMAT, stream=sys.stderr)
        return
    # Imported here: most brokers log for people.
    from ottla.cli.json_log import JsonLines

    logging.basicConfig(level=level, handlers=[JsonLines(sys.stderr)])


def _run(
    config: BrokerConfig, started: float, secured: SecuredBroker | None, gateway: GatewayProcess | None
) -> None:
    """Run the broker to its end. Errors after it was ready are the broker's, not the configuration's."""
    from ottla.server.process import HaltedError, run

    is_ready = False

    def announce(broker: Broker) -> None:
        nonlocal is_ready
        is_ready = True
        click.echo(ready_line(broker, time.perf_counter() - started))
        if secured is not None:
            click.echo(secured.next_line(broker.listeners.advertised[0]))
        if broker.http_port is not None:
            click.echo(http_line(broker, broker.http_port))
        if gateway is not None:
            gateway.start(broker.port)

    try:
        run(config, announce, None if gateway is None else gateway.stop)
    except (OSError, KafkaError, ConfigError) as error:
        if is_ready:
            raise
        raise Refusal(refusal(error, config)) from error
    except HaltedError as error:
        # It is in the log already; once it was ready, it is no refusal.
        raise (click.ClickException(str(error)) if is_ready else Refusal(str(error))) from error


def ready_line(broker: Broker, seconds: float) -> str:
    """The line that a broker prints when it is ready, for people and for scripts that wait for it."""
    listener = broker.config.node.listener
    host = f"[{listener.host}]" if ":" in listener.host else listener.host or "*"
    return (
        f"ottla {__version__} is ready at {host}:{broker.port} after {seconds:.2f} s"
        f" (node {broker.config.node.id}, cluster {broker.cluster_id},"
        f" data in {_place(broker.config)})"
    )


def http_line(broker: Broker, port: int) -> str:
    """The line that says where the pages of a broker are."""
    address = broker.config.monitoring.http_address
    host = "*" if address is None or not address.host else address.host
    shown = f"[{host}]" if ":" in host else host
    return f"metrics at http://{shown}:{port}/metrics, health at http://{shown}:{port}/health/cluster"


def _place(config: BrokerConfig) -> str:
    limit_bytes = config.logs.memory_bytes
    path = Path(config.logs.directory).absolute()
    return str(path) if limit_bytes is None else f"memory, at most {limit_bytes} bytes, at {path}"


def refusal(error: Exception, config: BrokerConfig) -> str:
    """Why the broker could not start, in one sentence that says what to do where that is known."""
    if isinstance(error, KafkaError):
        return error.message
    if not isinstance(error, OSError):
        return str(error)
    if error.filename is None:
        return _address_refusal(error, config.node.listener)
    why = (
        "it is not a directory"
        if isinstance(error, FileExistsError)
        else (error.strerror or str(error)).lower()
    )
    return f"The data directory {config.logs.directory} cannot be used: {why} ({error.filename})."


def _address_refusal(error: OSError, listener: Listener) -> str:
    host = listener.host or "this machine"
    if isinstance(error, socket.gaierror):
        return f"The host {host} is not known: choose another with --host."
    if error.errno == errno.EADDRINUSE:
        return f"Port {listener.port} of {host} is in use: choose another with --port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"This machine has no address {host}: choose another with --host."
    if error.errno == errno.EACCES:
        return f"Port {listener.port} of {host} is not allowed to this user: choose another with --port."
    return str(error)
