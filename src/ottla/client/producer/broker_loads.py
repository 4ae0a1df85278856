"""The load that brokers report, for the partitioner `load_aware`.

A broker that reports its load does so in settings of its own, named `ottla.load.…` (DescribeConfigs). Each is
a number that is compared with the other brokers' number of the same name. Brokers that report nothing are
left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.client.cluster.connections import Connections
from ottla.client.requests.configs import (
    ConfigResource,
    ResourceType,
    describe_configs_request,
    described_configs,
)
from ottla.errors import KafkaError

LOAD_PREFIX: Final = "ottla.load."
# Load changes slowly, and the reported numbers are old anyway.
REFRESH_SECONDS: Final = 5.0


def relative_loads(reports: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    """From 0 to 1 for each broker: the mean of its numbers, each divided by the largest of that name."""
    largest: dict[str, float] = {}
    for report in reports.values():
        for name, value in report.items():
            largest[name] = max(largest.get(name, 0.0), value)
    return {
        node_id: sum(value / largest[name] if largest[name] else 0.0 for name, value in report.items())
        / len(report)
        for node_id, report in reports.items()
        if report
    }


class BrokerLoads:
    """`run` asks all brokers again and again, and calls `on_change` with their loads by number."""

    def __init__(
        self,
        connections: Connections,
        nodes: Callable[[], Iterable[int]],
        on_change: Callable[[dict[int, float]], None],
        *,
        timeout_ms: int,
    ) -> None:
        self._connections = connections
        self._nodes = nodes
        self._on_change = on_change
        self._timeout_ms = timeout_ms

    async def run(self) -> None:
        """Until cancelled. A broker that does not answer has no load."""
        while True:
            reports = {node_id: await self._report(node_id) for node_id in sorted(set(self._nodes()))}
            self._on_change(relative_loads(reports))
            await asyncio.sleep(REFRESH_SECONDS)

    async def _report(self, node_id: int) -> dict[str, float]:
        resource = ConfigResource(ResourceType.BROKER, str(node_id))
        try:
            broker = await self._connections.to(node_id)
            response = await broker.ask(describe_configs_request([resource]), timeout_ms=self._timeout_ms)
            entries = described_configs(response)[resource]
        except (ConnectionError, TimeoutError, KafkaError, KeyError):
            return {}
        if isinstance(entries, KafkaError):
            return {}
        loads: dict[str, float] = {}
        for name, entry in entries.items():
            if name.startswith(LOAD_PREFIX) and (value := _number(entry.value)) is not None:
                loads[name] = value
        return loads


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
