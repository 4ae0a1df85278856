"""What is measured: each workload runs once per round and target, and answers the figures that are compared.

A workload gives its figures names with their units; what begins with `cpu` is the broker's. Each run has a
topic of its own; what is read is written once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench import wire
from bench.load import Result
from bench.processes import ROOT, memory_mebibytes
from bench.targets import BROKERS, MOCK, STARTERS, Target, seconds_to_ready

from ottla.localcluster.broker_process import running

Figures = dict[str, float]
CLIENT_DEADLINE_SECONDS = 300.0
IDLE_PARTITIONS = 100
IDLE_SECONDS = 2.0  # until whatever a broker does after its start is done
# Clients keep the memory they have had: on a virtual machine getting it again can cost more than the broker
# does.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
RECORDS = {100: 1_500_000, 1024: 300_000}
RAW_MEGABYTES = 384
CONSUMED_BATCH_BYTES = 262_144
SMALL_REQUESTS = 100_000
PING_PONGS = 5_000


@dataclass(frozen=True, slots=True)
class Run:
    """Where a workload runs: which round, how much of everything, where files may be kept, what is written
    already.
    """

    number: int
    scale: float
    directory: Path
    written: set[tuple[str, str]] = field(default_factory=set)

    def some(self, amount: int) -> int:
        return max(1, int(amount * self.scale))


@dataclass(frozen=True, slots=True)
class Workload:
    """A named measurement and the targets that can do it."""

    name: str
    measure: Callable[[Target, Run], Figures]
    targets: tuple[str, ...] = BROKERS
    moves_much: bool = False  # so much that the memory it gets decides (see `bench.memory`)


def run_client(module: str, work: str, options: Mapping[str, object]) -> Result:
    """Run a client process beside the broker; its last line is the result."""
    return Result(**client_answer(module, work, options))


def client_answer(module: str, work: str, options: Mapping[str, object]) -> dict[str, Any]:
    """What a client process says at its end. A list of values repeats the option."""
    command = [sys.executable, "-m", module, work]
    for name, given in options.items():
        for value in given if isinstance(given, list) else [given]:
            command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **KEEP_MEMORY},
        capture_output=True,
        text=True,
        timeout=CLIENT_DEADLINE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def create(target: Target, topic: str) -> str:
    if target.name != MOCK:
        with wire.connect(target.port) as connection:
            wire.create_topic(connection, topic)
    return topic


def confluent(target: Target, work: str, topic: str, records: int, size: int, acks: str = "1") -> Result:
    options: dict[str, object] = {"topic": topic, "records": records, "size": size, "acks": acks}
    if target.name == MOCK:
        options["mock"] = True
    else:
        options |= {"bootstrap": f"127.0.0.1:{target.port}", "broker-pid": target.pid}
    return run_client("bench.client", work, options)


def raw(target: Target, work: str, topic: str, **options: object) -> Result:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    where = {"port": target.port, "broker-pid": target.pid, "topic": topic}
    return run_client("bench.load", work, where | named)


def moved(result: Result) -> Figures:
    """The figures of a workload that moves many bytes; no CPU where there is no process to ask."""
    figures = {"mb_per_s": result.bytes / result.seconds / 1e6}
    if result.broker_cpu_seconds:
        figures["cpu_s_per_gb"] = result.broker_cpu_seconds / result.bytes * 1e9
    return figures


def confluent_produce(target: Target, run: Run, size: int, acks: str) -> Figures:
    topic = create(target, f"produce-{size}-{acks}-{run.number}")
    result = confluent(target, "produce", topic, run.some(RECORDS[size]), size, acks)
    return {"krec_per_s": result.requests / result.seconds / 1e3, **moved(result)}


def confluent_consume(target: Target, run: Run, size: int) -> Figures:
    """Every target has the same batches to give: what a producer made of its answers must not matter here."""
    topic, records = f"consume-{size}-{run.scale}", run.some(RECORDS[size])
    if (target.name, topic) not in run.written:
        megabytes = 2 + records * (size + 10) // 1_000_000
        shape = {"batch_bytes": CONSUMED_BATCH_BYTES, "record_bytes": size}
        raw(target, "produce", create(target, topic), megabytes=megabytes, **shape)
        run.written.add((target.name, topic))
    result = confluent(target, "consume", topic, records, size)
    return {"krec_per_s": result.requests / result.seconds / 1e3, **moved(result)}


def raw_produce(target: Target, run: Run, batch_bytes: int) -> Figures:
    topic = create(target, f"raw-{batch_bytes}-{run.number}")
    megabytes = run.some(RAW_MEGABYTES)
    return moved(raw(target, "produce", topic, batch_bytes=batch_bytes, megabytes=megabytes))


def raw_fetch(target: Target, run: Run) -> Figures:
    topic = f"raw-fetch-{run.scale}"
    if (target.name, topic) not in run.written:
        megabytes = run.some(RAW_MEGABYTES)
        raw(target, "produce", create(target, topic), batch_bytes=65_536, megabytes=megabytes)
        run.written.add((target.name, topic))
    return moved(raw(target, "fetch", topic, max_bytes=1 << 20))


def small_requests(target: Target, run: Run, work: str) -> Figures:
    topic = create(target, f"{work}-{run.number}")
    result = raw(target, work, topic, requests=run.some(SMALL_REQUESTS))
    return {
        "cpu_us_per_request": result.broker_cpu_seconds / result.requests * 1e6,
        "krequests_per_s": result.requests / result.seconds / 1e3,
    }


def ping_pong(target: Target, run: Run) -> Figures:
    topic = create(target, f"ping-pong-{run.number}")
    result = raw(target, "ping-pong", topic, requests=run.some(PING_PONGS))
    return {
        "p50_us": result.p50_us,
        "p99_us": result.p99_us,
        "cpu_us_per_request": result.broker_cpu_seconds / result.requests * 1e6,
    }


def start_up(target: Target, run: Run) -> Figures:
    """A broker of its own: first an empty one, then the same with 100 partitions, idle."""
    data = run.directory / f"start-{target.name}-{run.number}"
    with running(STARTERS[target.name](data)) as broker, wire.connect(broker.port) as connection:
        wire.create_topic(connection, "idle", IDLE_PARTITIONS if target.name != "floor" else 1)
        time.sleep(IDLE_SECONDS)
        resident, proportional = memory_mebibytes(broker.pid)
    ready = seconds_to_ready(target.name, data)
    return {"ready_s": ready, "resident_mib": resident, "proportional_mib": proportional}


MEBIBYTE_BATCH = 1_000_000  # as large as the default max.message.bytes lets pass, and what clients call 1 MiB
WORKLOADS = (
    *(
        Workload(
            f"confluent produce {size} B acks={acks}",
            partial(confluent_produce, size=size, acks=acks),
            (*BROKERS, MOCK),
            moves_much=True,
        )
        for size in (100, 1024)
        for acks in ("1", "all")
    ),
    *(
        Workload(f"confluent consume {size} B", partial(confluent_consume, size=size), moves_much=True)
        for size in (100, 1024)
    ),
    Workload("raw produce 16 KiB", partial(raw_produce, batch_bytes=16_384), moves_much=True),
    Workload("raw produce 64 KiB", partial(raw_produce, batch_bytes=65_536), moves_much=True),
    Workload("raw produce 1 MiB", partial(raw_produce, batch_bytes=MEBIBYTE_BATCH), moves_much=True),
    Workload("raw fetch 1 MiB", raw_fetch, moves_much=True),
    Workload("small produce", partial(small_requests, work="small")),
    Workload("small produce idempotent", partial(small_requests, work="idempotent")),
    Workload("ping-pong", ping_pong),
    Workload("start and idle", start_up),
)
