"""`python -m bench.fresh_tables`: how old a record is when it is in a pipeline's tables.

python -m bench.fresh_tables                          the template, live, 200 orders/s for two minutes
python -m bench.fresh_tables --rate 2000 --seconds 60
python -m bench.fresh_tables --mode continuous        updates in a row, for comparison

One broker process, one `ottla pipeline run` of the template, one producer at an even rate. A row's delay is the
time from its record's timestamp (the producer's clock) to the commit of the batch that has it, which is when the
table's list of files has its name; it is read from the files afterwards, so that looking costs the pipeline nothing.
The view is looked at by its path every quarter of a second: whether there is data, and how old the newest order is.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from bench import report
from bench.processes import cpu_seconds

import ottla
from ottla.blocking import Admin, Producer
from ottla.localcluster.broker_process import running, start_broker
from ottla.spark.pipelines.template import copy_template

TABLES: Final = ("raw_orders", "orders")
VIEW: Final = "customers"
_WARM_UP_S: Final = 20.0
_LOOK_EVERY_S: Final = 0.25
_START_S: Final = 300.0


@dataclass(slots=True)
class ViewSeen:
    """What a reader of the view finds, look by look."""

    looks: int = 0
    empty: int = 0
    ages_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Load:
    """The orders that are sent."""

    bootstrap: str
    rate: int
    seconds: float


def send(load: Load) -> tuple[int, int]:
    """Send orders at an even rate; the first and the last timestamp, in milliseconds, that are judged."""
    draw = random.Random(7)
    began = time.monotonic()
    first = time.time_ns() // 1_000_000 + int(_WARM_UP_S * 1000)
    sent = 0
    with Producer(load.bootstrap) as producer:
        while (passed := time.monotonic() - began) < _WARM_UP_S + load.seconds:
            while sent < passed * load.rate:
                producer.send_soon("orders", _order(sent, draw), key=f"c-{draw.randrange(50):03}")
                sent += 1
            producer.drain()
            time.sleep(0.005)
        producer.flush()
    return first, time.time_ns() // 1_000_000


def _order(number: int, draw: random.Random) -> str:
    order = {
        "order_id": f"o-{number}",
        "customer": f"c-{draw.randrange(50):03}",
        "country": draw.choice(("AT", "CZ", "DE", "FR", "IT")),
        "placed_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "items": draw.randint(1, 5),
        "amount": round(draw.uniform(5, 200), 2) if draw.random() > 0.02 else -1.0,
    }
    return json.dumps(order)


def delays_s(table: Path, first_ms: int, last_ms: int) -> list[float]:
    """The delays of the rows whose records have timestamps between two times."""
    found: list[float] = []
    for committed_ms, files in _commits(table / "_spark_metadata"):
        for file in files:
            sent = _milliseconds(file, "timestamp")
            found += [(committed_ms - at) / 1000 for at in sent if first_ms <= at <= last_ms]
    return found


def _milliseconds(file: Path, column: str) -> list[float]:
    """The times in a column."""
    from pyarrow import compute, parquet

    times = parquet.read_table(file, columns=[column])[column]
    per_ms = {"ns": 1e6, "us": 1e3, "ms": 1.0}[times.type.unit]
    return [each / per_ms for each in compute.cast(times, "int64").to_pylist() if each is not None]


def _commits(log: Path) -> Iterator[tuple[float, list[Path]]]:
    """The time of each commit of a table, and its files. A compacted list has the files of those before it, too."""
    seen: set[Path] = set()
    for entry in sorted(
        (each for each in log.iterdir() if each.name.partition(".")[0].isdecimal()),
        key=lambda each: int(each.name.partition(".")[0]),
    ):
        paths = [json.loads(line)["path"] for line in entry.read_text(encoding="utf-8").splitlines()[1:]]
        files = [Path(unquote(urlparse(path).path)) for path in paths]
        yield entry.stat().st_mtime_ns / 1e6, [file for file in files if file not in seen]
        seen.update(files)


def look_at(view: Path, done: threading.Event, seen: ViewSeen) -> None:
    """Read the view by its path, as any reader does, until `done`. A swap between listing and reading is retried."""
    while not done.wait(_LOOK_EVERY_S):
        newest = _newest_order(view)
        seen.looks += 1
        if newest is None:
            seen.empty += 1
        else:
            seen.ages_s.append(time.time() - newest / 1000)


def _newest_order(view: Path) -> float | None:
    for _ in range(3):
        try:
            times = [at for file in view.glob("*.parquet") for at in _milliseconds(file, "last_placed_at")]
        except (OSError, ValueError):
            continue
        return max(times, default=None)
    return None


def measure(directory: Path, mode: str, rate: int, seconds: float) -> dict[str, Any]:
    """Run everything once."""
    project = directory / "shop"
    with running(start_broker(directory / "broker")) as broker:
        copy_template(project, broker.bootstrap)
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([ottla.NewTopic("orders", partitions=3), ottla.NewTopic("orders.dead")])
        sent = subprocess.run([sys.executable, project / "generate.py", broker.bootstrap, "100"], check=True)
        assert sent.returncode == 0
        pipeline = _started(project, mode)
        try:
            return _measured(project, pipeline.pid, Load(broker.bootstrap, rate, seconds))
        finally:
            pipeline.send_signal(signal.SIGTERM)
            pipeline.wait()


def _started(project: Path, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(project), f"--{mode}"]
    process = subprocess.Popen([*command, "--master", "local[2]"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    deadline = time.monotonic() + _START_S
    wanted = ": live" if mode == "live" else "update completed"
    for line in process.stdout:
        print(line, end="", flush=True)
        if wanted in line:
            break
        assert time.monotonic() < deadline, "the pipeline has not started"
    threading.Thread(target=_drain, args=(process,), daemon=True).start()
    return process


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if "failed" in line or "Error" in line:
            print(line, end="", flush=True)


def _measured(project: Path, process: int, load: Load) -> dict[str, Any]:
    seen, done = ViewSeen(), threading.Event()
    reader = threading.Thread(target=look_at, args=(project / "tables" / VIEW, done, seen))
    reader.start()
    used, began = cpu_seconds(process), time.monotonic()
    first, last = send(load)
    cores = (cpu_seconds(process) - used) / (time.monotonic() - began)
    load_average = os.getloadavg()
    done.set()
    reader.join()
    deadline = time.monotonic() + _START_S
    wanted = int(load.rate * load.seconds * 0.9)  # a tenth may be bad orders
    while any(len(delays_s(project / "tables" / name, first, last)) < wanted for name in TABLES):
        assert time.monotonic() < deadline, "the tables do not get the orders"
        time.sleep(1.0)
    found = {name: delays_s(project / "tables" / name, first, last) for name in TABLES}
    return {"delays": found, "view": seen, "load": load_average, "cores": cores}


def page(measured: dict[str, Any], command: str) -> str:
    """What was found, for people."""
    rows = [_row(f"`{name}`", values) for name, values in measured["delays"].items()]
    seen: ViewSeen = measured["view"]
    rows.append(_row(f"`{VIEW}`, age of its newest order at each look", seen.ages_s))
    lines = report.table(["table", "rows", "p50 s", "p90 s", "p99 s", "longest s"], rows)
    load = ", ".join(f"{each:.1f}" for each in measured["load"])
    return "\n".join(
        [
            f"`{command}`, load averages of the machine at its end {load}:",
            "",
            *lines,
            "",
            f"The pipeline used {measured['cores']:.2f} cores. Looks at `{VIEW}` that found no row: {seen.empty} of {seen.looks}.",
        ]
    )


def _row(what: str, values: list[float]) -> list[str]:
    cuts = statistics.quantiles(values, n=100)
    return [what, f"{len(values):,}", *(f"{cuts[at - 1]:.2f}" for at in (50, 90, 99)), f"{max(values):.2f}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fresh_tables", description="How fresh tables are.")
    parser.add_argument("--mode", choices=("live", "continuous"), default="live")
    parser.add_argument("--rate", type=int, default=200, help="orders per second")
    parser.add_argument("--seconds", type=float, default=120.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        found = measure(Path(directory), chosen.mode, chosen.rate, chosen.seconds)
    print(page(found, " ".join(["python -m bench.fresh_tables", *sys.argv[1:]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
