"""Which HTTP stack the gateway stands on: requests per second of each, answering two bytes of JSON.

    PYTHONPATH=DIR .venv/bin/python -m bench.gateway_stacks

`DIR` has starlette, uvicorn and httptools (`pip install --target DIR starlette uvicorn httptools`): the gateway does
not need them, so they are no dependency. Stacks that cannot be imported are left out. The caller and the server have
a core each; the caller is the same for all: 32 connections, one request after the other on each.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

CONNECTIONS = 32
SECONDS = 2.0
ROUNDS = 3
REQUEST = b"GET /answer HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"

OURS = """
import asyncio, sys
from ottla.config.gateway import GatewayConfig
from ottla.gateway.http.dispatch import Dispatch
from ottla.gateway.http.machine.message import Answer
from ottla.gateway.http.machine.routes import Route, RouteTable
from ottla.gateway.http.server import HttpServer
async def answer(request): return Answer(200, b"{}")
async def main():
    table = RouteTable([Route("GET", "/answer", answer, "", "")])
    server = HttpServer(Dispatch(table, (), lambda error: None), GatewayConfig())
    await server.start("127.0.0.1", int(sys.argv[1]), None)
    await asyncio.Event().wait()
asyncio.run(main())
"""
STARLETTE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def answer(request): return Response(b"{}", media_type="application/json")
app = Starlette(routes=[Route("/answer", answer)])
uvicorn.run(app, port=int(sys.argv[1]), http="%s", ws="none", loop="asyncio", log_level="warning", access_log=False)
"""
STACKS = {
    "h11 in our loop (the gateway's core)": (OURS, ("h11",)),
    "uvicorn (h11) + starlette": (STARLETTE % "h11", ("uvicorn", "starlette")),
    "uvicorn (httptools) + starlette": (STARLETTE % "httptools", ("uvicorn", "starlette", "httptools")),
}


async def load(port: int) -> float:
    """Requests per second."""
    until = time.perf_counter() + SECONDS
    started = time.perf_counter()
    counts = await asyncio.gather(*(one_connection(port, until) for _ in range(CONNECTIONS)))
    return sum(counts) / (time.perf_counter() - started)


async def one_connection(port: int, until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < until:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(2)
        count += 1
    writer.close()
    return count


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_listening(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def measured(program: str) -> tuple[float, float]:
    """Requests per second, and microseconds of the server's CPU time per request."""
    port = free_port()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server = subprocess.Popen([sys.executable, "-c", program, str(port)])
    try:
        await_listening(port)
        rates = [asyncio.run(load(port)) for _ in range(ROUNDS)]
    finally:
        server.terminate()
        server.wait(20)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return statistics.median(rates), used_s * 1e6 / (sum(rates) * SECONDS)


def main() -> None:
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    for name, (program, modules) in STACKS.items():
        if any(importlib.util.find_spec(module) is None for module in modules):
            print(f"{name}: not installed, left out")
            continue
        rate, cpu_us = measured(program)
        print(f"{name}: {rate:,.0f} requests/s, {cpu_us:.0f} µs of CPU each, start included")


if __name__ == "__main__":
    main()
