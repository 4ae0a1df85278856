"""Is the cluster well, what needs a hand, and rates and lag over the last hours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin.checks.cluster_check import examine_cluster, examine_records
from ottla.client.admin.checks.findings import Examination, Finding
from ottla.errors import KafkaError
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.sampling import Sampler
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.routes import Route
from ottla.model import TopicPartition
from ottla.runtime.clock import OsClock, monotonic_ms

logger = logging.getLogger(__name__)

# Several tabs that are open do not ask several times.
_REMEMBERED_MS: Final = 5_000
# Every partition is asked for its newest record and its transactions: at most a twentieth of the time.
_RECORDS_MS: Final = 15_000
_SHARE: Final = 20
_MOST_REMEMBERED: Final = 64


@dataclass(slots=True)
class _Known:
    """What was found for one login: at once, and by the slower questions about all partitions."""

    report: Examination | None = None
    until_ms: float = 0.0
    slow: list[Finding] | None = None
    slow_until_ms: float = 0.0
    task: asyncio.Task[None] | None = None

    def found(self, report: Examination, until_ms: float) -> None:
        self.report, self.until_ms = report, until_ms

    def found_slowly(self, findings: list[Finding] | None, until_ms: float) -> None:
        self.slow, self.slow_until_ms = findings, until_ms

    def begin(self, task: asyncio.Task[None]) -> None:
        self.task = task


class HomePage:
    """What the page shows first. The questions that take long are asked beside it."""

    def __init__(self, door: Door, sampler: Sampler, bootstrap: str) -> None:
        self._door = door
        self._sampler = sampler
        self._bootstrap = bootstrap
        self._known: dict[Login | None, _Known] = {}

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        return (
            reads("/health", self._health, "The findings of ottla doctor, as far as the user may see."),
            reads("/rates", self._rates, "Records a second and lag over the last hours."),
        )

    async def close(self) -> None:
        """End the questions under way."""
        for known in self._known.values():
            if known.task is not None:
                known.task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await known.task

    async def _health(self, visit: Visit) -> Any:
        known = await self._examined(visit)
        report = known.report
        assert report is not None
        findings = sorted([*report.findings, *(known.slow or ())], key=lambda finding: -finding.severity)
        return {
            "is_healthy": Examination(report.subject, findings).is_healthy,
            "is_complete": known.slow is not None,
            "facts": report.facts,
            "findings": [
                {
                    "severity": each.severity.name.lower(),
                    "place": each.place,
                    "problem": each.problem,
                    "advice": each.advice,
                }
                for each in findings
            ],
            "command": visit.commands.line("doctor"),
        }

    async def _rates(self, visit: Visit) -> Any:
        history = self._sampler.history(visit.login)
        return {
            **history.series(),
            "busiest": [{"topic": topic, "records_per_s": rate} for topic, rate in history.busiest],
        }

    async def _examined(self, visit: Visit) -> _Known:
        if visit.login not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                await self.close()
                self._known.clear()
            self._known[visit.login] = _Known()
        known = self._known[visit.login]
        if monotonic_ms() < known.until_ms:
            return known
        report, led = await examine_cluster(visit.admin, self._bootstrap)
        known.found(report, monotonic_ms() + _REMEMBERED_MS)
        if (known.task is None or known.task.done()) and monotonic_ms() >= known.slow_until_ms:
            known.begin(asyncio.create_task(self._examine_records(visit.login, known, led)))
        return known

    async def _examine_records(self, login: Login | None, known: _Known, led: list[TopicPartition]) -> None:
        began_ms = monotonic_ms()
        findings = known.slow
        pool: ClientPool = self._door.pool
        try:
            async with pool.caller(login) as caller:
                admin = await caller.clients.admin()
                now_ms = OsClock().wall_ms()
                findings = (await examine_records(admin, self._bootstrap, led, now_ms)).findings
        except (KafkaError, HttpError, OSError) as error:
            logger.debug("clocks and transactions could not be asked about: %s", error)
        pause_ms = max(_RECORDS_MS, (monotonic_ms() - began_ms) * _SHARE)
        known.found_slowly(findings, monotonic_ms() + pause_ms)
