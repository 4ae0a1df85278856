"""The gateway beside its floor: `python -m bench.gateway`.

    python -m bench.gateway             writes bench/RESULTS_GATEWAY.md
    python -m bench.gateway --quick     one short round: is it still alive?

The floor is a server of the same HTTP stack that answers the same request with an empty body: what a gateway could do
at most. Gateway and floor take turns within a round. Next to what was done in a second stands what was done in a
second of the gateway's own CPU time: other work on the machine changes the first, and hardly the second. The broker
and the caller are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench import gateway_loads as loads
from bench.processes import cpu_seconds, memory_mebibytes
from bench.report import machine, table

from ottla.blocking import Admin
from ottla.client.requests.topics import NewTopic

RESULTS: Final = Path(__file__).with_name("RESULTS_GATEWAY.md")
ROUNDS: Final = 3
SECONDS: Final = 2.0
BATCH: Final = 500
RECORDS: Final = 20_000
ECHOES: Final = 300
SOCKETS: Final = 5_000
INSTANCES: Final = 1_000
IDLE_SECONDS: Final = 5.0
FLOOR: Final = """
import asyncio
from ottla.config.gateway import GatewayConfig
from ottla.gateway.http.dispatch import Dispatch
from ottla.gateway.http.machine.message import Answer
from ottla.gateway.http.machine.routes import Route, RouteTable
from ottla.gateway.http.server import HttpServer
from ottla.gateway.rest.produce import TAKES
async def answer(request): return Answer(200, b"")
async def main():
    routes = [Route("POST", "/topics/{topic}", answer, "", "", body="required", takes=TAKES),
              Route("GET", "/schemas/ids/{id}", answer, "", "")]
    server = HttpServer(Dispatch(RouteTable(routes), (), lambda error: None), GatewayConfig())
    print("ready at :%d " % await server.start("127.0.0.1", 0, None), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Running(NamedTuple):
    """A process, the port it listens on, and the one of gRPC."""

    pid: int
    port: int
    grpc_port: int = 0


class Figure(NamedTuple):
    """What was done in a second, and in a second of the process's CPU time."""

    per_second: float
    per_cpu_second: float


@contextlib.contextmanager
def running(command: list[str], pattern: str) -> Iterator[Running]:
    """A process that says its ports in its first line."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(pattern, process.stdout.readline())
            assert found is not None
            yield Running(process.pid, *map(int, found.groups()))
        finally:
            process.terminate()


@contextlib.contextmanager
def everything() -> Iterator[tuple[str, Running, Running]]:
    """A broker's address, a gateway in front of it, and the floor."""
    cli = ["-m", "ottla.cli.main"]
    with TemporaryDirectory() as data:
        serve = [*cli, "serve", "--data", data, "--port", "0", "--host", "127.0.0.1", "-q"]
        with running(serve, r"ready at 127.0.0.1:(\d+)") as broker:
            bootstrap = f"127.0.0.1:{broker.port}"
            door = ["--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "-q"]
            gateway = [*cli, "gateway", "--bootstrap", bootstrap, *door]
            ready = r"http://127.0.0.1:(\d+), gRPC at 127.0.0.1:(\d+)"
            with running(gateway, ready) as started, running(["-c", FLOOR], r"ready at :(\d+)") as floor:
                yield bootstrap, started, floor


def measured(process: Running, work: Callable[[], Awaitable[tuple[float, float]]]) -> Figure:
    """`work` returns how much it did, and in how many seconds."""
    before = cpu_seconds(process.pid)
    amount, seconds = asyncio.run(_awaited(work))
    return Figure(amount / seconds, amount / max(cpu_seconds(process.pid) - before, 0.001))


async def _awaited(work: Callable[[], Awaitable[tuple[float, float]]]) -> tuple[float, float]:
    return await work()


def request_load(
    port: int, request: bytes, seconds: float, each: int = 1
) -> Callable[[], Awaitable[tuple[float, float]]]:
    async def work() -> tuple[float, float]:
        return await loads.requests(port, request, seconds) * each, seconds

    return work


def timed_load(
    count: int, taken: Callable[[], Awaitable[float]]
) -> Callable[[], Awaitable[tuple[float, float]]]:
    async def work() -> tuple[float, float]:
        return count, await taken()

    return work


def one_round(gateway: Running, floor: Running, number: int, scale: float) -> dict[str, Figure]:
    """Every measurement once; gateway and floor take turns."""
    seconds, records = SECONDS * scale, max(1_000, int(RECORDS * scale))
    one, many = loads.produce_request("rest", 1), loads.produce_request("rest", BATCH)
    read = loads.get_request("/schemas/ids/1")
    topic = f"stream-{number}"
    return {
        "REST produce, requests: floor": measured(floor, request_load(floor.port, one, seconds)),
        "REST produce, requests": measured(gateway, request_load(gateway.port, one, seconds)),
        "REST produce of 500, records: floor": measured(
            floor, request_load(floor.port, many, seconds, BATCH)
        ),
        "REST produce of 500, records": measured(gateway, request_load(gateway.port, many, seconds, BATCH)),
        "registry reads, requests: floor": measured(floor, request_load(floor.port, read, seconds)),
        "registry reads, requests": measured(gateway, request_load(gateway.port, read, seconds)),
        "gRPC ProduceStream (100 a request), records": measured(
            gateway, timed_load(records, lambda: loads.stream_in(gateway.grpc_port, topic, records, 100))
        ),
        "gRPC Consume, records": measured(
            gateway, timed_load(records, lambda: loads.stream_out(gateway.grpc_port, topic, records))
        ),
        "WebSocket pushes, records": measured(
            gateway, timed_load(records, lambda: loads.pushes(gateway.port, topic, records))
        ),
    }


def growth(gateway: Running, scale: float) -> list[list[str]]:
    """Memory and requests with many callers: rows of the table."""
    request = loads.produce_request("rest", 1)

    async def with_sockets(count: int) -> list[str]:
        opened = await loads.sockets(gateway.port, count)
        resident = memory_mebibytes(gateway.pid)[0]
        before = cpu_seconds(gateway.pid)
        done = await loads.requests(gateway.port, request, SECONDS * scale)
        spent = cpu_seconds(gateway.pid) - before
        for each in opened:
            each.close()
        return [f"{count:,} WebSockets", f"{resident:.0f} MiB", f"{done / max(spent, 0.001):,.0f}"]

    counts = (1, max(1, int(SOCKETS * scale / 10)), int(SOCKETS * scale))
    return [instances(gateway, int(INSTANCES * scale)), *(asyncio.run(with_sockets(each)) for each in counts)]


def instances(gateway: Running, count: int) -> list[str]:
    """Consumer instances that have joined a group each: a row of the table. They come before the WebSockets, whose
    memory Python keeps.
    """
    before = memory_mebibytes(gateway.pid)[0]
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=120)

    def call(method: str, path: str, body: dict[str, object] | None = None) -> None:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        answer.read()

    for number in range(count):
        path = f"/consumers/bench-{number}/instances/i"
        call("POST", f"/consumers/bench-{number}", {"name": "i", "format": "json"})
        call("POST", f"{path}/subscription", {"topics": ["echo"]})
        call("GET", f"{path}/records?timeout=0")
    resident = memory_mebibytes(gateway.pid)[0]
    each_kib = (resident - before) * 1024 / max(count, 1)
    spent = cpu_seconds(gateway.pid)
    time.sleep(IDLE_SECONDS)
    cores = (cpu_seconds(gateway.pid) - spent) / IDLE_SECONDS
    for number in range(count):
        call("DELETE", f"/consumers/bench-{number}/instances/i")
    connection.close()
    words = f"{count:,} instances, each in its group: {cores:.2f} CPU seconds a second while nobody asks"
    return [words, f"{resident:.0f} MiB ({each_kib:.0f} KiB each)", "-"]


def report(rounds: list[dict[str, Figure]], echoes: list[float], many: list[list[str]], command: str) -> str:
    rows = []
    for name in rounds[0]:
        if name.endswith(": floor"):
            continue
        own = _median([each[name] for each in rounds])
        cells = [name, f"{own.per_second:,.0f}", f"{own.per_cpu_second:,.0f}", "-", "-"]
        if f"{name}: floor" in rounds[0]:
            floor = _median([each[f"{name}: floor"] for each in rounds])
            ratios = [each[name].per_cpu_second / each[f"{name}: floor"].per_cpu_second for each in rounds]
            cells[3:] = [f"{floor.per_cpu_second:,.0f}", f"{statistics.median(ratios):.2f}"]
        rows.append(cells)
    headings = ["work", "per second", "per CPU second", "floor, per CPU second", "ratio to the floor"]
    p50, p99 = loads.percentile(echoes, 0.5), loads.percentile(echoes, 0.99)
    return "\n".join(
        [
            "# The gateway, measured",
            "",
            f"`{command}`: medians of {len(rounds)} rounds. The floor answers the same request with an empty body by",
            "the same HTTP stack. CPU is that of the gateway's process. Records have 100 bytes.",
            "",
            *table(headings, rows),
            "",
            f"A record that is produced over a WebSocket comes back as a push after {p50:.1f} ms in the median,",
            f"{p99:.1f} ms at the 99th percentile ({len(echoes)} records, one after the other).",
            "",
            "No other proxy is beside it: Confluent's REST proxy and registry are neither on PyPI nor on Maven Central, and",
            "Karapace is not on PyPI any more.",
            "",
            "## Many callers",
            "",
            "Resident memory of the gateway, and REST produce requests per CPU second while they are open.",
            "",
            *table(["open", "memory", "requests per CPU second"], many),
            "",
            "## The machine",
            "",
            *machine(),
            "",
        ]
    )


def _median(figures: list[Figure]) -> Figure:
    return Figure(*(statistics.median(each) for each in zip(*figures, strict=True)))


def prepare(bootstrap: str, gateway: Running, rounds: int) -> None:
    """The topics, and a schema to read."""
    names = ["rest", "echo", *(f"stream-{number}" for number in range(rounds))]
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in names])
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    body = json.dumps({"schema": '"string"'})
    connection.request("POST", "/subjects/bench/versions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round; writes nothing")
    quick = parser.parse_args().quick
    rounds, scale = (1, 0.05) if quick else (ROUNDS, 1.0)
    with everything() as (bootstrap, gateway, floor):
        prepare(bootstrap, gateway, rounds)
        found = [one_round(gateway, floor, number, scale) for number in range(rounds)]
        echoes = asyncio.run(loads.echoes(gateway.port, "echo", max(20, int(ECHOES * scale))))
        text = report(found, echoes, growth(gateway, scale), "python -m bench.gateway")
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
