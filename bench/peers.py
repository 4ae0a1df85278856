"""`python -m bench.peers`: Ottla beside Apache Kafka, NATS JetStream, RabbitMQ streams and Redis streams.

    python -m bench.peers                      five rounds, writes bench/RESULTS_PEERS.md
    python -m bench.peers --quick              a tenth of everything in one round: is it still alive?
    python -m bench.peers --peers ottla,nats   some servers; writes no results

One server of each, all running at once for the whole benchmark (an idle one costs little, and a JVM is warm).
They take turns within each round, another one first each time; ratios are taken within a round. The records
are those of `bench/mixed_records.py`. Where the servers come from and what an acknowledged write means stands
in `bench/peer_servers.py`, the clients in `bench/peer_loads.py`. A server that is not to be had on this
machine is left out, and the page says why. One round before the others is not counted.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bench import report
from bench.apache.maven import CACHE, CannotFetchError
from bench.peer_servers import FORCED, HANDED_OVER, PEERS, Peer, serving
from bench.processes import ROOT, memory_mebibytes
from bench.verdicts import Spread

from ottla.localcluster.broker_process import BrokerProcess

RESULTS: Final = Path(__file__).with_name("RESULTS_PEERS.md")
ROUNDS, QUICK_SCALE, WARM_UP_SCALE = 5, 0.1, 0.3
DEADLINE_S: Final = 400
IDLE_S: Final = 3.0  # between the first answer and the look at the memory
# Acknowledged writes a second, one at a time: few enough that no server is busy, and no disk that flushes.
RATES: Final = {HANDED_OVER: 200, FORCED: 50}
PACED_S: Final = 5.0
READ: Final = 0.7  # of what was produced: a client that reads may take more at once than it is asked for
# Clients that Ottla does not depend on; they live in an environment of their own.
CLIENTS: Final = ("redis==8.1.0", "hiredis==3.5.0", "nats-py==2.16.0", "rstream==1.1.1")
OURS: Final = ("ottla", "confluent-kafka")


@dataclass(frozen=True, slots=True)
class Side:
    """A server through one client: a column of the tables."""

    name: str
    peer: str
    client: str
    records: int  # to produce in about a second on a quiet machine
    forced_records: int  # the same where each is flushed
    beside: str | None = "Ottla"  # the column that its ratios are taken to


SIDES: Final = (
    Side("Ottla", "ottla", "ottla", 60_000, 5_000, None),
    Side("Ottla, librdkafka", "ottla", "confluent-kafka", 150_000, 5_000, None),
    Side("Kafka, librdkafka", "kafka", "confluent-kafka", 150_000, 5_000, "Ottla, librdkafka"),
    Side("NATS JetStream", "nats", "nats", 15_000, 2_000),
    Side("RabbitMQ streams", "rabbitmq", "rabbitmq", 20_000, 0),
    Side("Redis streams", "redis", "redis", 40_000, 5_000),
)
START, MEMORY = "from the command to the first answer, s", f"resident memory {IDLE_S:.0f} s later, MiB"
RATE, CPU = "{}, thousand records/s", "{}, the server's CPU, µs a record"
LATENCY: Final = "{}one write at a time, {}/s: {}, ms"
TO_DISK: Final = "flushed: "

Measured = dict[str, dict[str, list[float]]]  # figure → side → one value per round


class PeersBench:
    """Servers that run, and what was measured on them."""

    def __init__(self, sides: Sequence[Side], directory: Path) -> None:
        self._sides = sides
        self._peers = [PEERS[name] for name in dict.fromkeys(side.peer for side in sides)]
        self._directory = directory
        self._servers: dict[tuple[str, str], BrokerProcess] = {}
        self.measured: Measured = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """A server of each peer for each durability that it knows."""
        with contextlib.ExitStack() as stack:
            for peer in self._peers:
                for durability in (HANDED_OVER, FORCED) if peer.can_force else (HANDED_OVER,):
                    data = self._directory / f"{peer.name}-{durability.replace(' ', '-')}"
                    server, _ = stack.enter_context(serving(peer, data, durability))
                    self._servers[peer.name, durability] = server
            yield

    def round(self, number: int, scale: float, *, keep: bool = True) -> None:
        first = number % len(self._sides)
        sides = [*self._sides[first:], *self._sides[:first]]
        if keep:
            for peer in self._peers:
                self._start(peer, number)
        for measure in (self._throughput, self._latency, self._flushed):
            for side in sides:
                found = measure(side, f"{side.client}-{number}", scale)
                if keep:
                    self._keep([side], found)

    def _start(self, peer: Peer, number: int) -> None:
        with serving(peer, self._directory / f"{peer.name}-start-{number}") as (server, seconds):
            time.sleep(IDLE_S)
            memory, _ = memory_mebibytes(server.pid)
        sides = [side for side in self._sides if side.peer == peer.name]
        self._keep(sides, {START: seconds, MEMORY: memory})

    def _throughput(self, side: Side, stream: str, scale: float) -> dict[str, float]:
        records, found = int(side.records * scale) + 10, dict[str, float]()
        for work, count in (("produce", records), ("consume", int(records * READ))):
            figures = self._run(side, HANDED_OVER, work, stream, count)
            found[RATE.format(work)] = figures["per_second"] / 1e3
            found[CPU.format(work)] = figures["server_cpu_us"]
        return found

    def _latency(
        self, side: Side, stream: str, scale: float, durability: str = HANDED_OVER
    ) -> dict[str, float]:
        rate = RATES[durability]
        figures = self._run(
            side, durability, "paced", f"paced-{stream}", int(rate * PACED_S * scale) + 1, rate
        )
        when = TO_DISK if durability == FORCED else ""
        return {LATENCY.format(when, rate, part): figures[f"{part}_ms"] for part in ("p50", "p99")}

    def _flushed(self, side: Side, stream: str, scale: float) -> dict[str, float]:
        if not PEERS[side.peer].can_force:
            return {}
        records = int(side.forced_records * scale) + 10
        figures = self._run(side, FORCED, "produce", stream, records)
        rate = figures["per_second"] / 1e3
        return {TO_DISK + RATE.format("produce"): rate, **self._latency(side, stream, scale, FORCED)}

    def _run(
        self, side: Side, durability: str, work: str, stream: str, records: int, rate: int = 0
    ) -> dict[str, float]:
        server = self._servers[side.peer, durability]
        command = [str(python_of(side.client)), "-m", "bench.peer_loads", "--client", side.client]
        command += ["--work", work, "--stream", stream, "--records", str(records)]
        command += ["--port", str(server.port), "--pid", str(server.pid)]
        command += ["--rate", str(rate)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        if done.returncode:
            raise AssertionError(f"{side.name} could not {work}:\n{done.stderr[-3000:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures

    def _keep(self, sides: Sequence[Side], found: Mapping[str, float]) -> None:
        for side in sides:
            for figure, value in found.items():
                print(f"  {side.name:18} {figure:55} {value:10.3f}", flush=True)
                self.measured.setdefault(figure, {}).setdefault(side.name, []).append(value)


def python_of(client: str) -> Path:
    """The interpreter that has the client."""
    return Path(sys.executable) if client in OURS else environment() / "bin" / "python"


def environment() -> Path:
    """The virtual environment of the peers' clients, made on first use."""
    home = CACHE / ("peers-" + "-".join(CLIENTS).replace("==", "-"))
    if not (home / "complete").exists():
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *CLIENTS]
        for command in ([sys.executable, "-m", "venv", "--clear", str(home)], pip):
            done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            if done.returncode:
                raise CannotFetchError(f"the clients of the peers: {done.stderr[-600:]}")
        (home / "complete").touch()
    return home


def available(names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the servers that this machine has or can fetch, and why others are left out."""
    versions, left_out = dict[str, str](), dict[str, str]()
    for name in names:
        try:
            versions[name] = PEERS[name].version()
            if name not in ("ottla", "kafka"):
                environment()
        except CannotFetchError as reason:
            versions.pop(name, None)
            left_out[name] = str(reason)
    return versions, left_out


def figures_table(measured: Measured, sides: Sequence[Side]) -> list[str]:
    rows = [
        [figure, *(_text(by_side.get(side.name, ())) for side in sides)]
        for figure, by_side in measured.items()
    ]
    return report.table(["figure", *(side.name for side in sides)], rows)


def ratios_table(measured: Measured, sides: Sequence[Side]) -> list[str]:
    """Each peer divided by Ottla, round by round."""
    peers = [side for side in sides if side.beside]
    rows = [
        [figure, *(_ratio(by_side.get(side.name, ()), by_side.get(side.beside or "", ())) for side in peers)]
        for figure, by_side in measured.items()
    ]
    return report.table(["figure", *(f"{side.name} ÷ {side.beside}" for side in peers)], rows)


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> str:
    return _text([other / own for other, own in zip(theirs, ours, strict=False)])


def _text(values: Sequence[float]) -> str:
    return Spread.of(values).text() if values else "-"


def page(measured: Measured, sides: Sequence[Side], command: str, rounds: int, facts: Sequence[str]) -> str:
    return "\n".join(
        [
            "# Ottla beside other logs",
            "",
            f"Made by `{command}`: {rounds} rounds, the servers taking turns within each; medians, with the smallest",
            "and the largest round in brackets. Compare only within this page.",
            "",
            "One server of each, one client process, one ordered log (a topic with one partition, a stream). Records",
            "(`bench/mixed_records.py`): JSON values of 60 to 900 bytes, keys, headers on a third of them. A record counts",
            "as written when it is acknowledged, and as read when the program has key, value and headers in hand.",
            "",
            "- **The client is a part of what is measured**, and in Python often the larger one: librdkafka is written in C,",
            "  Redis's client parses answers in C, those of Ottla, NATS and RabbitMQ are Python. The server's CPU per record",
            "  says more about the servers.",
            "- An acknowledged write has been handed to the operating system, by all five: the death of the process loses",
            "  nothing, the loss of power may. That is the default of all but Redis, which has `appendonly yes` here (and",
            "  flushes each second). Copies on other machines, which is how Ottla, Kafka, NATS and RabbitMQ survive the",
            "  loss of power, are not measured here.",
            "- Lines that begin with `flushed` are other servers of the same kind that flush before they acknowledge",
            "  (`log.flush.interval.messages=1`, `sync_interval: always`, `appendfsync always`); RabbitMQ's streams cannot.",
            "  A batch is flushed at once, so a client that makes batches waits for fewer flushes.",
            "- Redis keeps all of its stream in memory, the others do not. Redis and RabbitMQ are sent 500 records at a time,",
            "  the other clients make batches of their own, or none (NATS).",
            "",
            *facts,
            "",
            "## The others divided by Ottla",
            "",
            "Of rates, a ratio below one means that Ottla did more; of times, memory and CPU, a ratio above one means that",
            "Ottla took less.",
            "",
            *ratios_table(measured, sides),
            "",
            "## Everything",
            "",
            *figures_table(measured, sides),
            "",
        ]
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything; writes no results")
    parser.add_argument("--runs", type=int, default=ROUNDS, metavar="N", help=f"rounds (default: {ROUNDS})")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated (default: all)")
    chosen = parser.parse_args()
    if unknown := set(chosen.peers.split(",")) - set(PEERS):
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    return chosen


def main() -> int:
    chosen = options()
    compileall.compile_dir(str(ROOT / "src"), quiet=1)  # as pip leaves an installed package
    versions, left_out = available(chosen.peers.split(","))
    sides = [side for side in SIDES if side.peer in versions]
    facts = [
        *report.machine(),
        f"- Servers: {', '.join(f'{name} {version}' for name, version in versions.items())}",
        f"- Clients: {', '.join(name.replace('==', ' ') for name in CLIENTS)}",
        f"- Loops over records of Ottla's client: {'compiled' if find_spec('ottla.records._native') else 'Python'}",
        *(f"- Left out: {name}: {reason}" for name, reason in left_out.items()),
    ]
    rounds, scale = (1, QUICK_SCALE) if chosen.quick else (chosen.runs, 1.0)
    with tempfile.TemporaryDirectory(prefix="ottla-peers-") as directory:
        bench = PeersBench(sides, Path(directory))
        with bench.running():
            if not chosen.quick:
                bench.round(0, WARM_UP_SCALE, keep=False)
            for number in range(1, rounds + 1):
                print(f"round {number}", flush=True)
                bench.round(number, scale)
    text = page(
        bench.measured, sides, shlex.join(["python", "-m", "bench.peers", *sys.argv[1:]]), rounds, facts
    )
    print("\n" + text)
    if not chosen.quick and chosen.peers == ",".join(PEERS):
        RESULTS.write_text(text)
        print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
