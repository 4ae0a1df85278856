"""The live view of a load generator: a table redrawn every second on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Final

import click

from ottla.cli.records.bench_figures import PERCENTILES, Figures

_SECONDS: Final = 1.0
_ROWS: Final = 15
_COLUMNS: Final = ("second", "records/s", "MB/s", "failed", *(f"p{each:g} ms" for each in PERCENTILES))


class View:
    """Shows the figures of each second. The load counts them; the `newest` latencies restart each second."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._begun = monotonic()
        self._last = (0, 0, 0, self._begun)
        self._rows: list[list[str]] = []

    def row(self) -> list[str]:
        """The second that is over."""
        figures, (records, size_bytes, failed, then) = self._figures, self._last
        now = monotonic()
        self._last = (figures.records, figures.size_bytes, figures.failed, now)
        seconds = max(now - then, 1e-9)
        latencies = figures.latencies
        return [
            f"{now - self._begun:.0f}",
            f"{(figures.records - records) / seconds:,.0f}",
            f"{(figures.size_bytes - size_bytes) / seconds / 1e6:.1f}",
            str(figures.failed - failed),
            *(f"{latencies.percentile(each):.2f}" if len(latencies) else "-" for each in PERCENTILES),
        ]

    async def lines(self) -> None:
        """One line a second, for logs."""
        click.echo("  ".join(f"{name:>12}" for name in _COLUMNS), err=True)
        while True:
            await asyncio.sleep(_SECONDS)
            click.echo("  ".join(f"{cell:>12}" for cell in self.row()), err=True)

    async def table(self) -> None:
        """The last seconds, drawn in place."""
        from rich.box import SIMPLE_HEAD  # drawn only here
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table

        def drawn() -> Table:
            table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
            for name in _COLUMNS:
                table.add_column(name, justify="right")
            for row in self._rows[-_ROWS:]:
                table.add_row(*row)
            return table

        with Live(drawn(), console=Console(stderr=True), auto_refresh=False) as live:
            while True:
                await asyncio.sleep(_SECONDS)
                self._rows.append(self.row())
                live.update(drawn(), refresh=True)


@contextlib.asynccontextmanager
async def watched(figures: Figures, *, is_quiet: bool) -> AsyncIterator[Callable[[], float]]:
    """Show the figures while the block runs; answers how many seconds it has run."""
    begun, view = monotonic(), View(figures)
    showing = view.table() if sys.stderr.isatty() else view.lines()
    task = None if is_quiet else asyncio.create_task(showing)
    if task is None:
        showing.close()
    try:
        yield lambda: monotonic() - begun
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
