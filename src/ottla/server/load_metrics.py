"""The load of this broker for clients: read-only entries of its configuration in DescribeConfigs
(CTL-8).

    ottla.load.cpu.percent               of one core
    ottla.load.resident.bytes            memory
    ottla.load.disk.free.bytes           where the logs are
    ottla.load.in.bytes.per.second       over all connections, and
    ottla.load.out.bytes.per.second
    ottla.load.in.messages.per.second    records appended to partitions that this broker leads
    ottla.load.damaged.replicas          replicas with records that cannot be read
    ottla.load.refused.connections       since the start: too many, or closed for what they sent
    ottla.load.failed.logins             since the start

Rates are those of the last ten seconds or so. Nothing is counted on the way of a record: every two seconds
the connections and the logs are asked for their totals.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.config import ConfigType
from ottla.runtime.clock import monotonic_s
from ottla.runtime.runtime import Runtime
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions

_INTERVAL_S: Final = 2.0
_SAMPLES: Final = 6
_PARTITIONS_PER_TURN: Final = 256


class Traffic(NamedTuple):
    """Bytes of all connections since the start, and what was refused since then."""

    received_bytes: int
    sent_bytes: int
    refused_connections: int = 0
    failed_logins: int = 0


class LoadEntry(NamedTuple):
    """One number, as DescribeConfigs shows it; `what` follows `ottla.load.` in its name."""

    what: str
    value: str
    type: ConfigType
    doc: str

    @property
    def name(self) -> str:
        return f"ottla.load.{self.what}"


class _Sample(NamedTuple):
    at_s: float
    cpu_s: float
    traffic: Traffic
    messages: int


class Load:
    """Looks from time to time; tells when it is asked."""

    def __init__(
        self, path: str, partitions: Partitions, traffic: Callable[[], Traffic], runtime: Runtime
    ) -> None:
        self._runtime = runtime
        self._path = path
        self._partitions = partitions
        self._traffic = traffic
        self._ends: dict[HostedPartition, int] = {}
        self._messages = 0
        self._samples: deque[_Sample] = deque(maxlen=_SAMPLES)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._samples.append(self._sample())
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def entries(self) -> list[LoadEntry]:
        """The numbers of this moment."""
        now = self._sample()
        first = self._samples[0] if self._samples else now
        seconds = max(now.at_s - first.at_s, 0.001)
        received = now.traffic.received_bytes - first.traffic.received_bytes
        sent = now.traffic.sent_bytes - first.traffic.sent_bytes
        cpu = 100 * (now.cpu_s - first.cpu_s) / seconds
        double, long = ConfigType.DOUBLE, ConfigType.LONG
        return [
            LoadEntry("cpu.percent", f"{cpu:.1f}", double, "The part of one core that this broker uses."),
            LoadEntry(
                "resident.bytes",
                str(self._runtime.process.resident_bytes()),
                long,
                "The memory that this broker uses.",
            ),
            LoadEntry("disk.free.bytes", str(self._free_bytes()), long, "The room left where its logs are."),
            LoadEntry(
                "in.bytes.per.second",
                _rate(received, seconds),
                long,
                "The bytes that all connections receive.",
            ),
            LoadEntry(
                "out.bytes.per.second", _rate(sent, seconds), long, "The bytes that all connections send."
            ),
            LoadEntry(
                "in.messages.per.second",
                _rate(now.messages - first.messages, seconds),
                long,
                "The records appended to partitions that this broker leads.",
            ),
            LoadEntry(
                "damaged.replicas",
                str(sum(partition.log.status.is_damaged for partition in self._partitions)),
                long,
                "The replicas on this broker with records that cannot be read.",
            ),
            *_refusals(now.traffic),
        ]

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            await self._count_messages()
            self._samples.append(self._sample())

    def _sample(self) -> _Sample:
        return _Sample(monotonic_s(), self._runtime.process.cpu_s(), self._traffic(), self._messages)

    async def _count_messages(self) -> None:
        """A partition counts from the second look on at which this broker leads it."""
        ends: dict[HostedPartition, int] = {}
        for number, partition in enumerate(self._partitions):
            if partition.replica.is_leader and not partition.is_closed:
                end = ends[partition] = partition.log.log_end_offset
                self._messages += max(end - self._ends.get(partition, end), 0)
            if number % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
        self._ends = ends

    def _free_bytes(self) -> int:
        return self._runtime.disk.usage(self._path).free_bytes


def _refusals(traffic: Traffic) -> tuple[LoadEntry, ...]:
    long = ConfigType.LONG
    return (
        LoadEntry(
            "refused.connections",
            str(traffic.refused_connections),
            long,
            "The connections refused, or closed for what they sent, since the start.",
        ),
        LoadEntry(
            "failed.logins", str(traffic.failed_logins), long, "The logins that failed since the start."
        ),
    )


def _rate(count: int, seconds: float) -> str:
    return str(round(count / seconds))
