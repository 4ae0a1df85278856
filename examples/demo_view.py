"""What the person who runs the demo sees: a picture that moves on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from examples.demo_orders import Sent
from examples.demo_watch import FLOW, TABLES, Seen
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

_LINE_EVERY_S = 3.0
_WINDOWS = 5
_REASONS = 4


@dataclass
class Scene:
    """What goes on, apart from numbers."""

    words: str = "Starting."
    brokers: dict[int, bool] = field(default_factory=dict)  # whether each runs


class View:
    """Draws what the others count."""

    def __init__(self, console: Console, sent: Sent, seen: Seen, scene: Scene) -> None:
        self._console, self._sent, self._seen, self._scene = console, sent, seen, scene
        self._begun = time.monotonic()
        self._next_line_s = 0.0
        self._rate = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, words: str) -> None:
        """Something happened: it stays on the screen."""
        self._scene.words = words
        self._console.print(f"[dim]{self._elapsed_s():5.1f} s[/]  {words}", highlight=False)

    def show(self) -> None:
        elapsed_s, self._rate = self._elapsed_s(), self._sent.rate()
        if self._console.is_terminal:
            self._live.update(self._picture(elapsed_s), refresh=True)
        elif elapsed_s >= self._next_line_s:
            self._next_line_s = elapsed_s + _LINE_EVERY_S
            self._console.print(self._line(elapsed_s), highlight=False, soft_wrap=True)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def _line(self, elapsed_s: float) -> str:
        sent, seen = self._sent, self._seen
        lag = seen.lag
        parts = [
            f"{sent.acknowledged:,} orders ({self._rate:,.0f}/s)",
            f"{seen.rows['raw_orders']:,} in raw_orders",
            "the pipeline is starting" if lag is None else f"lag {lag:,}",
            f"{len(seen.windows)} windows",
            f"{len(seen.dead):,} dead letters",
        ]
        return f"{elapsed_s:5.1f} s  {', '.join(parts)}"

    def _picture(self, elapsed_s: float) -> RenderableType:
        brokers = Text("brokers ")
        for node_id, runs in sorted(self._scene.brokers.items()):
            brokers.append(f" {node_id} {'●' if runs else '✗'}", "green" if runs else "bold red")
        head = Text(f"{elapsed_s:5.1f} s  ").append(brokers).append(f"   {self._scene.words}", "dim")
        return Group(head, Columns([self._flows(), self._windows(), self._letters()], padding=(0, 3)))

    def _flows(self) -> Table:
        sent, seen = self._sent, self._seen
        table = Table("topic to table", "rows", "lag", box=SIMPLE_HEAD, title_justify="left")
        table.columns[1].justify = table.columns[2].justify = "right"
        table.add_row("orders sent", f"{sent.acknowledged:,}", f"{self._rate:,.0f}/s", end_section=True)
        for name in TABLES:
            lag = "" if name != FLOW else "…" if seen.lag is None else f"{seen.lag:,}"
            table.add_row(name, f"{seen.rows[name]:,}", lag)
        table.add_row("orders.dead (topic)", f"{len(seen.dead):,}", "")
        return table

    def _windows(self) -> Table:
        table = Table("newest windows", "orders", "revenue", box=SIMPLE_HEAD)
        table.columns[1].justify = table.columns[2].justify = "right"
        newest = sorted(self._seen.windows.items())[-_WINDOWS:]
        for start, window in reversed(newest):
            table.add_row(f"{start:%H:%M:%S}", f"{window.orders:,}", f"{window.revenue:,.2f}")
        if not newest:
            table.add_row("none closed yet", "", "")
        return table

    def _letters(self) -> Table:
        table = Table("dead letters", "", box=SIMPLE_HEAD)
        table.columns[1].justify = "right"
        for reason, count in self._seen.reasons.most_common(_REASONS):
            table.add_row(reason[:36], f"{count:,}")
        if not self._seen.reasons:
            table.add_row("none yet", "")
        return table
