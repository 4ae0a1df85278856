"""What the demo sees from outside, like anybody could: lags of groups, dead letters in their topic, rows and
windows in the tables.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

from ottla.blocking import Admin, Consumer
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import KafkaError
from ottla.model import TopicPartition

PARTITIONS = 3
DEAD_TOPIC = "orders.dead"
RECEIPT_TOPIC = "receipts"
PIPELINE = "order_pipeline"
FLOW = "raw_orders"  # reads the topic, and commits its progress to a group of the pipeline's name and its own
TABLES = ("raw_orders", "orders", "revenue")
_EVERY_S = 0.5
_REASON = "dead-letter.reason"
_ORIGIN = ("dead-letter.partition", "dead-letter.offset")


@dataclass
class Window:
    """What was sold in ten seconds."""

    orders: int = 0
    revenue: float = 0.0


@dataclass
class Seen:
    """The newest state of everything; replaced piece by piece while others read it."""

    ends: Mapping[int, int] = field(default_factory=dict)
    lag: int | None = None  # of the pipeline's group; None until it has committed something
    rows: Counter[str] = field(default_factory=Counter)
    windows: dict[datetime, Window] = field(default_factory=lambda: defaultdict(Window))
    reasons: Counter[str] = field(default_factory=Counter)
    dead: set[tuple[bytes, ...]] = field(default_factory=set)  # origins
    letters: int = 0

    @property
    def has_everything(self) -> bool:
        """Whether all records of the topic are in the first table."""
        return self.lag == 0 and self.rows[FLOW] >= sum(self.ends.values())


class Tables:
    """The Parquet files of tables as they come; each is read once.

    A file belongs to a table when the table's log names it: what a repeated task left behind does not.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: set[Path] = set()

    def look(self, seen: Seen) -> None:
        for name in TABLES:
            for path in self._files(self._directory / name):
                if path not in self._known:
                    self._take(name, path, seen)
                    self._known.add(path)

    def _files(self, table: Path) -> Iterator[Path]:
        for entry in (table / "_spark_metadata").glob("[0-9]*"):
            if entry not in self._known:
                with contextlib.suppress(
                    OSError
                ):  # it was compacted meanwhile: the newer entry names the same files
                    lines = entry.read_text().splitlines()[1:]
                    yield from (
                        table / unquote(json.loads(line)["path"]).rpartition("/")[2] for line in lines
                    )
                    self._known.add(entry)

    def _take(self, name: str, path: Path, seen: Seen) -> None:
        if name != "revenue":
            seen.rows[name] += pq.ParquetFile(path).metadata.num_rows
            return
        for row in pq.ParquetFile(path).read().to_pylist():
            window = seen.windows[row["window_start"]]
            window.orders += row["orders"]
            window.revenue += float(row["revenue"])
            seen.rows[name] += 1


class Watch:
    """Looks twice a second, from a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, tables: Path) -> None:
        self.seen = Seen()
        self._bootstrap = bootstrap
        self._partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        self._tables = Tables(tables)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._thread.join()

    def _run(self) -> None:
        """Whatever fails is asked again: a broker may be away just now."""
        while not self._is_stopping.is_set():
            with contextlib.suppress(KafkaError, OSError):
                self._look_on()

    def _look_on(self) -> None:
        with (
            Admin(self._bootstrap, client_id="demo") as admin,
            Consumer(
                self._bootstrap,
                client_id="demo",
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as letters,
        ):
            letters.assign([TopicPartition(DEAD_TOPIC, 0)])
            while not self._is_stopping.wait(_EVERY_S):
                self.look(admin, letters)

    def look(self, admin: Admin, letters: Consumer) -> None:
        self._tables.look(self.seen)
        self.seen.lag = self._lag(admin)
        while records := letters.poll(timeout_ms=50):
            for record in records:
                headers = dict(record.headers)
                self.seen.letters += 1
                self.seen.dead.add(tuple(headers.get(name) or b"" for name in _ORIGIN))
                self.seen.reasons[(headers.get(_REASON) or b"?").decode()] += 1

    def _lag(self, admin: Admin) -> int | None:
        listed = admin.list_offsets(dict.fromkeys(self._partitions, int(OffsetSpec.LATEST)))
        ends = {key: each.offset for key, each in listed.items() if isinstance(each, ListedOffset)}
        committed = admin.list_group_offsets(f"{PIPELINE}.{FLOW}", self._partitions)
        places = {key: each.offset for key, each in committed.items() if isinstance(each, CommittedOffset)}
        if len(ends) < PARTITIONS or len(places) < PARTITIONS:
            return None
        self.seen.ends = {key.partition: offset for key, offset in ends.items()}
        return sum(max(ends[key] - places[key], 0) for key in self._partitions)
