"""`python -m bench.embedded`: what a test waits for, and what a script pays.

A broker inside the process is started again and again; the first line is a process of its own, with
everything it has to import. Times are medians and the slowest; nothing is written.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import ottla
import ottla.blocking
import ottla.testing

PROMISED_MS = 150.0
PAYLOAD = b"x" * 100

_FIRST = """
import time
begun = time.perf_counter()
import ottla.testing
broker = ottla.testing.broker()
imported = time.perf_counter()
with broker:
    print((imported - begun) * 1000, (time.perf_counter() - imported) * 1000)
"""


def first_start() -> tuple[float, float]:
    """In a new process: milliseconds to import what a broker is made of, and to start one."""
    done = subprocess.run([sys.executable, "-c", _FIRST], capture_output=True, text=True, check=True)
    imported, started = map(float, done.stdout.split())
    return imported, started


def starts(times: int) -> Iterator[tuple[float, float, float]]:
    """Milliseconds to start a broker, to create a topic on it, and to stop it."""
    for _ in range(times):
        broker, moments = ottla.testing.broker(), [time.perf_counter()]
        for step in (broker.start, lambda: broker.create_topic("orders"), broker.close):  # noqa: B023
            step()
            moments.append(time.perf_counter())
        yield tuple(1000 * (b - a) for a, b in pairwise(moments))  # type: ignore[misc]


def per_second(count: int, work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return count / (time.perf_counter() - begun)


def blocking_rates(count: int) -> dict[str, float]:
    """Records a second through the clients without asyncio, 100 bytes each."""
    rates = {}
    with ottla.testing.broker() as broker:
        with ottla.blocking.Producer(broker.bootstrap) as producer:
            producer.send("orders", PAYLOAD)

            def send_soon() -> None:
                for _ in range(count):
                    producer.send_soon("orders", PAYLOAD)
                producer.flush()

            rates["send_soon"] = per_second(count, send_soon)
            rates["send"] = per_second(
                count // 10, lambda: [producer.send("orders", PAYLOAD) for _ in range(count // 10)]
            )
        with ottla.blocking.Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([ottla.TopicPartition("orders", 0)])
            records = iter(consumer)
            next(records)
            rates["for"] = per_second(count // 10, lambda: [next(records) for _ in range(count // 10)])
            rates["poll"] = per_second(
                count // 2, lambda: [consumer.poll(timeout_ms=1000) for _ in range(count // 2 // 500)]
            )
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded", description=__doc__)
    parser.add_argument("--times", type=int, default=50, metavar="N", help="brokers to start (default: 50)")
    parser.add_argument("--records", type=int, default=20_000, metavar="N", help="records (default: 20000)")
    chosen = parser.parse_args()
    imported, started = first_start()
    print(f"a new process: import {imported:.0f} ms, start {started:.0f} ms")
    for name, values in zip(
        ("start", "create a topic", "stop"), zip(*starts(chosen.times), strict=True), strict=True
    ):
        print(f"{name:16} median {statistics.median(values):6.1f} ms   slowest {max(values):6.1f} ms")
        if name == "start":
            verdict = "kept" if statistics.median(values) < PROMISED_MS else "NOT KEPT"
            print(f"{'':16} promised: under {PROMISED_MS:.0f} ms: {verdict}")
    for name, rate in blocking_rates(chosen.records).items():
        print(f"blocking {name:10} {rate:10,.0f} records/s")


if __name__ == "__main__":
    main()
