"""The findings of `ottla doctor`: what is wrong where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How bad it is. A note is worth knowing and no finding: with notes alone, all is well."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, in sentences."""

    severity: Severity
    place: str
    problem: str
    advice: str


class CannotLookError(Exception):
    """There is nothing to be examined; the message is one sentence that says why."""


@dataclass(slots=True)
class Examination:
    """All that was found in one place, and the facts around it."""

    subject: str
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def note(self, place: object, problem: str, advice: str) -> None:
        self.findings.append(Finding(Severity.NOTE, str(place), problem, advice))

    def warning(self, place: object, problem: str, advice: str) -> None:
        self.findings.append(Finding(Severity.WARNING, str(place), problem, advice))

    def error(self, place: object, problem: str, advice: str) -> None:
        self.findings.append(Finding(Severity.ERROR, str(place), problem, advice))

    @property
    def is_healthy(self) -> bool:
        return all(finding.severity is Severity.NOTE for finding in self.findings)
