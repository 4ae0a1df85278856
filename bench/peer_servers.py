"""The servers of `bench.peers`: where each comes from, how it is started, and when it is ready.

| server | from |
|---|---|
| Ottla | this checkout |
| Apache Kafka | Maven Central (`bench/apache`) |
| NATS with JetStream | Go's module proxy, built into `.cache/` on first use |
| Redis, RabbitMQ | the machine's packages: `apt-get install redis-server rabbitmq-server` |

Each keeps a log on disk. With the durability "handed over", a write is acknowledged once the operating system
has it: no server waits for the disk, as all of them do by default (Redis with `appendonly yes`, which is not
its default). With "forced", each acknowledged write was flushed to the disk (fsync); RabbitMQ's streams never
do that.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import wire
from bench.apache.kafka import CLUSTER_ID, java, run_tool, write_properties
from bench.apache.kafka import VERSION as KAFKA_VERSION
from bench.apache.maven import CACHE, CannotFetchError
from bench.targets import KAFKA_OPTIONS

from ottla.localcluster.broker_process import BrokerProcess, await_ready, serve_command, spawn
from ottla.localcluster.ports import HOST, free_port, free_ports

HANDED_OVER: Final = "handed over"
FORCED: Final = "forced"
NATS_VERSION: Final = "v2.15.2"
_NATS_MODULE: Final = "github.com/nats-io/nats-server/v2"
_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # without Debian's change of user
_BUILD_DEADLINE_S: Final = 600
_ANSWER_DEADLINE_S: Final = 1.0
_FORCED_LOG: Final = {"log.flush.interval.messages": "1"}

Starts = Callable[[Path, int, str], list[str]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One server: its name, its version, the command that starts it at a port, and its first answer."""

    name: str
    version: Callable[[], str]  # CannotFetchError says why this machine does not have the server
    command: Starts  # of a data directory, a port and a durability; writes the configuration, starts nothing
    answers: Callable[[int], bool]
    can_force: bool = True


@contextlib.contextmanager
def serving(peer: Peer, data: Path, durability: str = HANDED_OVER) -> Iterator[tuple[BrokerProcess, float]]:
    """The server, running, and the seconds from its command to its first answer."""
    port = free_port()
    data.mkdir(parents=True)
    command = peer.command(data, port, durability)
    begun = time.perf_counter()
    server = spawn(peer.name, command, data, data.with_name(f"{data.name}.output"), port, own_session=True)
    try:
        await_ready(server, lambda: peer.answers(port))
        yield server, time.perf_counter() - begun
    finally:
        # With everything that it started; what it wrote is thrown away.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.process.wait()


def _ottla(data: Path, port: int, durability: str) -> list[str]:
    return serve_command(data, _FORCED_LOG if durability == FORCED else {}, port=port)


def _ottla_version() -> str:
    return "this commit"


def _kafka(data: Path, port: int, durability: str) -> list[str]:
    file = write_properties(data, port, _FORCED_LOG if durability == FORCED else {})
    formatted = run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(file))
    if formatted.status:
        raise CannotFetchError(f"Apache Kafka could not format {data}: {formatted.everything}")
    return java("kafka.Kafka", [str(file)], options=KAFKA_OPTIONS)


def _kafka_version() -> str:
    java("kafka.Kafka")  # fetches the jars
    return KAFKA_VERSION


def _redis(data: Path, port: int, durability: str) -> list[str]:
    flush = "always" if durability == FORCED else "everysec"
    options = {"port": port, "bind": HOST, "dir": data, "save": "", "appendonly": "yes", "appendfsync": flush}
    return ["redis-server", *(part for name, value in options.items() for part in (f"--{name}", str(value)))]


def _redis_version() -> str:
    return _told(["redis-server", "--version"], r"v=(\S+)", "redis-server")


def _nats(data: Path, port: int, durability: str) -> list[str]:
    flush = "sync_interval: always" if durability == FORCED else ""
    file = data.with_name(f"{data.name}.conf")
    file.write_text(f'listen: "{HOST}:{port}"\njetstream {{ store_dir: "{data}"\n{flush} }}\n')
    return [str(_nats_server()), "-c", str(file)]


def _nats_version() -> str:
    return _told([str(_nats_server()), "--version"], r": v(\S+)", "nats-server")


def _nats_server() -> Path:
    """The server, built on first use."""
    home = CACHE / f"nats-server-{NATS_VERSION}"
    if (home / "nats-server").exists():
        return home / "nats-server"
    if shutil.which("go") is None:
        raise CannotFetchError("NATS is built by go, which is not on the PATH")
    built = subprocess.run(
        ["go", "install", f"{_NATS_MODULE}@{NATS_VERSION}"],
        env=os.environ | {"GOBIN": str(home), "GOFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=_BUILD_DEADLINE_S,
        check=False,
    )
    if built.returncode:
        raise CannotFetchError(f"go did not build NATS: {built.stderr[-600:]}")
    return home / "nats-server"


def _rabbitmq(data: Path, port: int, durability: str) -> list[str]:
    """The server's script, and the name server of Erlang that it would otherwise leave behind."""
    amqp, names, erlang = free_ports(HOST, 3, [port])
    file, plugins = data.with_name(f"{data.name}.conf"), data.with_name(f"{data.name}.plugins")
    plugins.write_text("[rabbitmq_stream].\n")
    lines = [
        f"listeners.tcp.1 = {HOST}:{amqp}",
        f"stream.listeners.tcp.1 = {HOST}:{port}",
        f"stream.advertised_host = {HOST}",
        f"stream.advertised_port = {port}",
    ]
    file.write_text("".join(f"{line}\n" for line in lines))
    environment = {
        "HOME": data,
        "ERL_EPMD_PORT": names,
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": f"peers-{port}@localhost",
        "RABBITMQ_DIST_PORT": erlang,
        "RABBITMQ_MNESIA_BASE": data,
        "RABBITMQ_LOG_BASE": data,
        "RABBITMQ_CONFIG_FILE": file,
        "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
    }
    script = f"epmd & until epmd -names >/dev/null 2>&1; do sleep 0.01; done; exec {_RABBITMQ}"
    return ["env", *(f"{name}={value}" for name, value in environment.items()), "sh", "-c", script]


def _rabbitmq_version() -> str:
    if not _RABBITMQ.exists():
        raise CannotFetchError(f"RabbitMQ is not at {_RABBITMQ}: apt-get install rabbitmq-server")
    return _told(["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"], r"^([\d.]+)", "rabbitmq-server")


def _told(command: list[str], pattern: str, package: str) -> str:
    """The version in a command's output."""
    if shutil.which(command[0]) is None:
        raise CannotFetchError(f"{command[0]} is not on the PATH: apt-get install {package}")
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(pattern, said)
    return found.group(1) if found else "of unknown version"


def _says(question: bytes, answer: bytes) -> Callable[[int], bool]:
    """Whether a server answers a question with these first bytes."""

    def asked(port: int) -> bool:
        try:
            with socket.create_connection((HOST, port), _ANSWER_DEADLINE_S) as connection:
                connection.settimeout(_ANSWER_DEADLINE_S)
                connection.sendall(question)
                return connection.recv(len(answer)) == answer
        except OSError:
            return False

    return asked


# A frame of RabbitMQ's stream protocol: PeerProperties, version 1, correlation id 1, no properties.
_PEER_PROPERTIES: Final = bytes.fromhex("0000000c 0011 0001 00000001 00000000")

PEERS: Final[Mapping[str, Peer]] = {
    peer.name: peer
    for peer in (
        Peer("ottla", _ottla_version, _ottla, wire.answers_api_versions),
        Peer("kafka", _kafka_version, _kafka, wire.answers_api_versions),
        Peer("nats", _nats_version, _nats, _says(b"", b"INFO {")),
        Peer("rabbitmq", _rabbitmq_version, _rabbitmq, _says(_PEER_PROPERTIES, b"\0"), can_force=False),
        Peer("redis", _redis_version, _redis, _says(b"PING\r\n", b"+PONG")),
    )
}
