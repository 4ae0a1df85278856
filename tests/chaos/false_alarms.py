"""`make chaos ARGS=--calm`: nothing is broken on a busy machine, and the cluster must not believe otherwise.

python -m tests.chaos --calm --minutes 5 --load 10

Three brokers with default settings, a client that writes fifty times a second with acks=all, and processes that do
nothing but use the processor, as many as it takes to keep the load of the machine. Counted are the decisions that a
timeout brings about: another controller, a fenced broker, a replica that left the ISR, a leader that stepped down.
The target is none of them with the default timeouts.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import ottla
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.launch import running_cluster
from ottla.localcluster.plan.cluster import ClusterOptions

TOPIC: Final = "orders"
PARTITIONS: Final = 6
# What brokers say when a timeout was over.
ALARMS: Final = {
    "controllers elected": re.compile(r"this node is the active controller"),
    "brokers fenced": re.compile(r"is not heard of any more: it is fenced"),
    "replicas out of sync": re.compile(r"in-sync replicas of \S+: shrank"),
    "leaders that stepped down": re.compile(r"another in-sync replica should lead"),
    "registrations again": re.compile(r"the controller does not know this broker any more"),
}
_MOST_BURNERS: Final = 32
_WRITE_S: Final = 0.02
_LOOK_S: Final = 5.0


@dataclass(slots=True)
class Calm:
    """What happened while nothing was broken."""

    alarms: Counter[str] = field(default_factory=Counter)
    loads: list[float] = field(default_factory=list)
    acknowledged: int = 0
    failed: int = 0
    slowest_s: float = 0.0


def alarms_in(text: str) -> Counter[str]:
    """How often a broker's output tells of each kind of alarm."""
    return Counter({name: len(pattern.findall(text)) for name, pattern in ALARMS.items()})


class Burners:
    """Processes that use the processor, and nothing else."""

    def __init__(self, load: float) -> None:
        self._load = load
        self._processes: list[BaseProcess] = []

    def adjust(self) -> float:
        """Start or end one process, if the load of the last minute asks for that; the load."""
        load = os.getloadavg()[0]
        if load < self._load and len(self._processes) < _MOST_BURNERS:
            process = multiprocessing.get_context("spawn").Process(target=_burn, daemon=True)
            process.start()
            self._processes.append(process)
        elif load > self._load + 1 and self._processes:
            self._end(self._processes.pop())
        return load

    def end(self) -> None:
        """End all of them."""
        while self._processes:
            self._end(self._processes.pop())

    def _end(self, process: BaseProcess) -> None:
        process.kill()
        process.join()


def _burn() -> None:
    while True:
        pass


def watch(directory: Path, minutes: float, load: float) -> Calm:
    """Run a cluster on a busy machine, and count its alarms."""
    calm, burners = Calm(), Burners(load)
    with running_cluster(directory, ClusterOptions(port=0)) as cluster:
        try:
            asyncio.run(_use(cluster, calm, burners, minutes * 60))
        finally:
            burners.end()
    return calm


async def _use(cluster: LocalCluster, calm: Calm, burners: Burners, seconds: float) -> None:
    async with ottla.Admin(cluster.bootstrap) as admin:
        topic = ottla.NewTopic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        ottla.succeeded(await admin.create_topics([topic]))
    async with ottla.Producer(cluster.bootstrap, acks="all", linger_ms=0) as producer:
        await producer.send(TOPIC, b"first")
        before = _alarms_of(cluster)
        end_s = time.monotonic() + seconds
        look_s = 0.0
        while (now_s := time.monotonic()) < end_s:
            if now_s >= look_s:
                calm.loads.append(burners.adjust())
                look_s = now_s + _LOOK_S
            await _write(producer, calm)
            await asyncio.sleep(_WRITE_S)
        calm.alarms = _alarms_of(cluster) - before


async def _write(producer: ottla.Producer, calm: Calm) -> None:
    began_s = time.monotonic()
    try:
        await producer.send(TOPIC, b"coffee")
        calm.acknowledged += 1
    except ottla.KafkaError:
        calm.failed += 1
    calm.slowest_s = max(calm.slowest_s, time.monotonic() - began_s)


def _alarms_of(cluster: LocalCluster) -> Counter[str]:
    return sum((alarms_in(cluster.broker_said(node_id)) for node_id in cluster.ids), Counter())


def told(calm: Calm) -> str:
    """The numbers, one line each."""
    loads = sorted(calm.loads)
    lines = [f"{name}: {calm.alarms[name]}" for name in ALARMS]
    lines += [
        f"load of the last minute: {loads[0]:.1f} to {loads[-1]:.1f}, mostly {loads[len(loads) // 2]:.1f}",
        f"writes: {calm.acknowledged} acknowledged, {calm.failed} failed, the slowest took {calm.slowest_s:.2f} s",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calm", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--load", type=float, default=10.0, help="of the machine, as uptime shows it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        calm = watch(Path(directory), given.minutes, given.load)
    print(told(calm))
    return 1 if calm.failed or calm.alarms.total() else 0


if __name__ == "__main__":
    sys.exit(main())
