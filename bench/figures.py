"""Single figures, each with the limit that is asked for, and the program that measures some of them."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from bench import report

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; with a limit it is a promise."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    def row(self) -> list[str]:
        asked = "" if self.limit is None else f"< {self.limit:g}"
        verdict = "" if self.limit is None else ("held" if self.value < self.limit else "MISSED")
        return [self.what, f"{self.value:,.4g}", self.unit, asked, verdict]


def table(figures: list[Figure]) -> list[str]:
    """All figures, with their verdicts."""
    return report.table(["what", "measured", "unit", "asked", "verdict"], [one.row() for one in figures])


@dataclass(frozen=True, slots=True)
class Run(Generic[S]):
    """The program `python -m bench.<name>`: all measurements at one scale; `write` keeps the results."""

    name: str
    description: str
    measurements: Mapping[str, Callable[[Path, S], list[Figure]]]
    scale: S
    quick: S
    write: Callable[[list[Figure], str, list[str]], None]

    def main(self, arguments: list[str]) -> int:
        """1 if a figure is over its limit."""
        parser = argparse.ArgumentParser(prog=f"python -m bench.{self.name}", description=self.description)
        parser.add_argument("--quick", action="store_true", help="a tenth of everything; writes no results")
        parser.add_argument(
            "--only", choices=list(self.measurements), action="append", help="one measurement"
        )
        chosen = parser.parse_args(arguments)
        facts, figures = report.machine(), list[Figure]()
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
            for name in chosen.only or self.measurements:
                found = self.measurements[name](Path(directory), self.quick if chosen.quick else self.scale)
                print("\n".join(f"{one.what:90} {one.value:12,.4g} {one.unit}" for one in found), flush=True)
                figures += found
        print("\n".join(["", *table(figures)]))
        if not chosen.quick and not chosen.only:
            self.write(figures, shlex.join(["python", "-m", f"bench.{self.name}", *arguments]), facts)
        return 1 if any(one.limit is not None and one.value >= one.limit for one in figures) else 0
