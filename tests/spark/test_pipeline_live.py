"""`ottla pipeline run --live`: records are in the tables without another update, and updates and live mode take over
from each other, also after a kill and beside compaction, with each record once; a view is never seen empty; a column can be added on the way (PIPE-8).

One test, because each start of Spark costs some ten seconds: live and killed, one update, live and stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import ottla
import ottla.testing
from ottla.blocking import Admin, Consumer, Producer
from ottla.model import TopicPartition
from ottla.spark.pipelines.status import data_files
from ottla.spark.pipelines.template import copy_template

DEADLINE_S = 360.0
pytestmark = pytest.mark.timeout(900)


@dataclass(slots=True)
class Shop:
    """The template on a broker of its own, and what was sent to it."""

    directory: Path
    bootstrap: str
    numbers: Iterator[int] = field(default_factory=count)
    channel: str | None = None
    records: int = 0
    good: dict[str, str | None] = field(default_factory=dict)  # the channels of the good orders
    bad: int = 0

    def send(self, orders: int) -> None:
        """Send orders, of which each tenth is bad and each seventh is sent twice."""
        with Producer(self.bootstrap) as producer:
            for number in (next(self.numbers) for _ in range(orders)):
                order = {
                    "order_id": f"o-{number}",
                    "customer": f"c-{number % 7}",
                    "country": "AT",
                    "placed_at": "2026-11-18T12:00:00Z",
                    "items": 1,
                    "amount": 1.0 if number % 10 else -1.0,
                    **({"channel": self.channel} if self.channel else {}),
                }
                copies = 1 if number % 7 else 2
                for _ in range(copies):
                    producer.send_soon("orders", json.dumps(order), key=order["customer"])
                self.records += copies
                if number % 10:
                    self.good[f"o-{number}"] = self.channel
                else:
                    self.bad += copies
            producer.flush()

    def sent(self, orders: int) -> bool:
        self.send(orders)
        return True

    def run(self, *options: str) -> str:
        """One update; what it prints."""
        done = subprocess.run(
            self.command(*options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def command(self, *options: str) -> list[str]:
        project = str(self.directory)
        return [
            sys.executable,
            "-m",
            "ottla.cli.main",
            "pipeline",
            "run",
            project,
            "--master",
            "local[2]",
            *options,
        ]

    def table(self, name: str) -> pa.Table:
        """The rows of a table, as its list of files has them; a view's files may be exchanged while they are read."""
        directory = self.directory / "tables" / name
        while True:
            try:
                files = data_files(directory)
                tables = [parquet.read_table(file) for file in files or []]
                return pa.concat_tables(tables, promote_options="default")
            except FileNotFoundError:
                continue

    def has(self, name: str, rows: int) -> bool:
        return (self.directory / "tables" / name).exists() and self.table(name).num_rows >= rows


@contextmanager
def live(shop: Shop, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process group of its own, after it has become live."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            shop.command("--live", "--every", "500ms", *options),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        becomes(lambda: ": live" in log.read_text() or process.poll() is not None, log)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def becomes(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


class Watcher(threading.Thread):
    """Looks at the view by its path, and keeps the sums of orders that it finds."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(daemon=True)
        self._shop = shop
        self._done = threading.Event()
        self.sums: list[int] = []

    def run(self) -> None:
        while not self._done.wait(0.05):
            rows = self._shop.table("customers")
            self.sums.append(sum(rows["orders"].to_pylist()))

    def stop(self) -> list[int]:
        self._done.set()
        self.join()
        return self.sums


def test_updates_and_live_mode_take_over_from_each_other_with_each_record_once(tmp_path: Path) -> None:
    with ottla.testing.broker() as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([ottla.NewTopic("orders", partitions=3), ottla.NewTopic("orders.dead")])
        copy_template(tmp_path / "shop", broker.bootstrap)
        with (tmp_path / "shop" / "spark-pipeline.yml").open("a", encoding="utf-8") as file:
            # Lists that compaction takes are closed after three batches, not ten.
            file.write('  spark.sql.streaming.fileSink.log.compactInterval: "3"\n')
        shop = Shop(tmp_path / "shop", broker.bootstrap)
        shop.send(100)

        log = tmp_path / "first.log"
        with live(shop, log) as process:
            shop.send(100)
            becomes(lambda: shop.has("orders", len(shop.good)), log)
            watcher = Watcher(shop)
            watcher.start()
            shop.send(100)
            becomes(lambda: shop.has("raw_orders", shop.records - 50), log)
            shop.send(100)
            os.killpg(process.pid, signal.SIGKILL)
        definitions = shop.directory / "transformations" / "orders.py"
        text = definitions.read_text(encoding="utf-8")
        definitions.write_text(text.replace("    items INT,\n", "    items INT,\n    channel STRING,\n"))
        shop.channel = "web"
        shop.send(50)
        told = shop.run()
        assert "update completed" in told
        after_update = shop.table("customers")
        log = tmp_path / "second.log"
        with live(shop, log, "--compact-every", "15s") as process:
            assert "Error" not in log.read_text()
            shop.send(100)
            becomes(lambda: shop.sent(3) and "compacted raw_orders" in log.read_text(), log)
            becomes(lambda: shop.has("orders", len(shop.good)), log)
            becomes(lambda: sum(shop.table("customers")["orders"].to_pylist()) == len(shop.good), log)
            becomes(lambda: len(dead_letters(broker.bootstrap)) == shop.bad, log)
            running = status(shop)
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0, log.read_text()
        stopped = status(shop)
        letters = dead_letters(broker.bootstrap)
        sums = watcher.stop()

    raw, orders = shop.table("raw_orders"), shop.table("orders")
    places = list(zip(raw["partition"].to_pylist(), raw["offset"].to_pylist(), strict=True))
    assert len(places) == len(set(places)) == shop.records
    ids, channels = orders["order_id"].to_pylist(), orders["channel"].to_pylist()
    assert len(ids) == len(shop.good)
    assert dict(zip(ids, channels, strict=True)) == shop.good
    assert len(letters) == len(set(letters)) == shop.bad
    assert 0 < sum(after_update["orders"].to_pylist()) < len(shop.good)
    assert sums == sorted(sums)  # a view only grows here, and is never empty
    assert sums[0] > 0
    assert len(set(sums)) > 1
    assert (running["last_update"]["outcome"], running["last_update"]["live"]) == ("running since", True)
    assert (stopped["last_update"]["outcome"], stopped["last_update"]["live"]) == ("stopped", True)
    assert next(flow["lag"] for flow in stopped["flows"] if flow["name"] == "raw_orders") == 0


def dead_letters(bootstrap: str) -> list[tuple[bytes | None, ...]]:
    """The origins of the dead letters, as readers of committed records find them."""
    found: list[tuple[bytes | None, ...]] = []
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders.dead", 0)])
        while not found or any(consumer.lag().values()):
            for record in consumer.poll(timeout_ms=1_000):
                headers = dict(record.headers)
                found.append((headers["dead-letter.partition"], headers["dead-letter.offset"]))
    return found


def status(shop: Shop) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", "pipeline", "status", str(shop.directory), "--json"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    content: dict[str, Any] = json.loads(done.stdout)
    return content
