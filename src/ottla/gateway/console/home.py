"""Is the cluster well, what needs a hand, and rates and lag over the last hours."""

from __future__ import annotations

from typing import Any, Final

from ottla.client.admin.checks.cluster_check import examine_cluster
from ottla.client.admin.checks.findings import Examination
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.sampling import Sampler
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.routes import Route
from ottla.runtime.clock import OsClock, monotonic_ms

# An examination asks about every partition: several tabs that are open do not ask several times.
_REMEMBERED_MS: Final = 5_000
_MOST_REMEMBERED: Final = 64


class HomePage:
    """What the page shows first."""

    def __init__(self, door: Door, sampler: Sampler, bootstrap: str) -> None:
        self._door = door
        self._sampler = sampler
        self._bootstrap = bootstrap
        self._known: dict[Login | None, tuple[float, Examination]] = {}

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        return (
            reads("/health", self._health, "The findings of ottla doctor, as far as the user may see."),
            reads("/rates", self._rates, "Records a second and lag over the last hours."),
        )

    async def _health(self, visit: Visit) -> Any:
        report = await self._examined(visit)
        return {
            "is_healthy": report.is_healthy,
            "facts": report.facts,
            "findings": [
                {
                    "severity": each.severity.name.lower(),
                    "place": each.place,
                    "problem": each.problem,
                    "advice": each.advice,
                }
                for each in sorted(report.findings, key=lambda finding: -finding.severity)
            ],
            "command": visit.commands.line("doctor"),
        }

    async def _rates(self, visit: Visit) -> Any:
        history = self._sampler.history(visit.login)
        return {
            **history.series(),
            "busiest": [{"topic": topic, "records_per_s": rate} for topic, rate in history.busiest],
        }

    async def _examined(self, visit: Visit) -> Examination:
        known = self._known.get(visit.login)
        if known is not None and monotonic_ms() < known[0]:
            return known[1]
        report = await examine_cluster(visit.admin, self._bootstrap, OsClock().wall_ms())
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[visit.login] = monotonic_ms() + _REMEMBERED_MS, report
        return report
