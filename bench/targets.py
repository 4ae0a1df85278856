"""Who is measured: the floor program, Ottla, Apache Kafka, and librdkafka's mock for what it can do.

All run at the same time for the whole benchmark, each as its users would run it, so that a virtual machine's
JIT is warm and no round is spent on starting; an idle broker costs next to nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bench import wire
from bench.apache.kafka import java, start_apache_kafka, write_properties

from ottla.localcluster.broker_process import (
    BrokerError,
    BrokerProcess,
    await_ready,
    running,
    serve_command,
    spawn,
    start_broker,
)
from ottla.localcluster.ports import free_port

# What Kafka's own start script gives its broker.
KAFKA_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
MOCK = "mock"  # it lives inside the client: no process, no CPU to be told apart
BROKERS = ("floor", "ottla", "apache")
Settings: TypeAlias = Mapping[str, str] | None  # of the broker; the floor has none


@dataclass(frozen=True, slots=True)
class Target:
    """One broker to be measured; the mock has neither port nor process."""

    name: str
    broker: BrokerProcess | None = None

    @property
    def pid(self) -> int:
        return self.broker.pid if self.broker else 0

    @property
    def port(self) -> int:
        return self.broker.port if self.broker else 0


def start_floor(data: Path, settings: Settings = None, *, port: int = 0) -> BrokerProcess:
    port = port or free_port()
    command = [sys.executable, "-m", "bench.floor", "--port", str(port), "--data", str(data)]
    floor = spawn("floor", command, data, data.with_name(data.name + ".output"), port)
    return await_ready(floor, lambda: wire.answers_api_versions(port))


def start_kafka(data: Path, settings: Settings = None, *, port: int = 0) -> BrokerProcess:
    return start_apache_kafka(data, settings, port=port, options=KAFKA_OPTIONS)


STARTERS: dict[str, Callable[..., BrokerProcess]] = {
    "floor": start_floor,
    "ottla": start_broker,
    "apache": start_kafka,
}


@contextlib.contextmanager
def started(names: Sequence[str], directory: Path, settings: Settings = None) -> Iterator[list[Target]]:
    """The chosen targets, running; stopped at the end."""
    with contextlib.ExitStack() as stack:
        targets: list[Target] = []
        for name in names:
            if name == MOCK:
                targets.append(Target(MOCK))
            else:
                broker = STARTERS[name](directory / name, settings)
                targets.append(Target(name, stack.enter_context(running(broker))))
        try:
            yield targets
        except Exception as error:
            for target in targets:
                if target.broker and not target.broker.is_running():
                    last_words = target.broker.said()[-2000:]
                    raise BrokerError(f"{target.name} ended by itself:\n{last_words}") from error
            raise


def seconds_to_ready(name: str, data: Path) -> float:
    """From the command to the first ApiVersions answer, over a data directory that exists already."""
    port = free_port()
    begun = time.perf_counter()
    with running(_spawn_only(name, data, port)) as broker:
        while not wire.answers_api_versions(port):
            if not broker.is_running():
                raise AssertionError(f"{name} ended: {broker.said()[-2000:]}")
            time.sleep(0.002)
        return time.perf_counter() - begun


def _spawn_only(name: str, data: Path, port: int) -> BrokerProcess:
    """Start without waiting, with the address that a client would use."""
    output = data.with_name(f"{data.name}.ready-output")
    if name == "floor":
        command = [sys.executable, "-m", "bench.floor", "--port", str(port), "--data", str(data)]
    elif name == "ottla":
        command = serve_command(data, port=port)
    else:
        command = _kafka_command(data, port)
    return spawn(name, command, data, output, port)


def _kafka_command(data: Path, port: int) -> list[str]:
    return java("kafka.Kafka", [str(write_properties(data, port, {}))], options=KAFKA_OPTIONS)
