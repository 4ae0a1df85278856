"""Stream orders through Ottla with an unmodified Kafka client, watch them, and check every one of them.

Starts a broker of its own in a temporary directory, sends JSON orders with confluent-kafka (by customer, some
without a key, some compressed) while a second client reads them, then verifies what was read, stops the
broker, starts it again and reads everything once more. The exit code is 0 only if every check holds.

    python examples/orders.py
    python examples/orders.py --orders 1000000 --seconds 30 --keep
"""

from __future__ import annotations

import argparse
import json
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

TOPIC = "orders"
PARTITIONS = 3
CUSTOMERS = 500
GUEST_EVERY = 10  # each so many-th order has no customer, and so no key
COMPRESSIONS = ("none", "lz4", "zstd", "gzip")
ORDERS_PER_TURN = 250  # one compression's orders before it is the next one's turn
DEADLINE_S = 60.0
RATE_WINDOW_S = 2.0
SEED = 20


class DemoError(Exception):
    """Something that ends the demo before its checks; the message is for the person who watches."""


# The orders


class Order(NamedTuple):
    key: bytes | None
    value: bytes


def checksum(key: bytes | None, value: bytes) -> bytes:
    return blake2b(b"%r|%s" % (key, value), digest_size=8).digest()


def sample_orders(count: int, seed: int) -> Iterator[Order]:
    """The same orders for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        customer = None if number % GUEST_EVERY == 0 else f"customer-{chance.randrange(CUSTOMERS):03d}"
        skus = [f"SKU-{chance.randrange(2000):04d}" for _ in range(chance.randint(1, 4))]
        cents = [chance.randint(99, 9999) for _ in skus]
        order = {"order": number, "customer": customer, "skus": skus, "cents": cents, "total": sum(cents)}
        yield Order(customer.encode() if customer else None, json.dumps(order).encode())


# The broker


@dataclass
class Broker:
    """A real `ottla serve` process."""

    process: subprocess.Popen[str]
    address: str
    ready_s: float

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit code, and how long it took."""
        begun = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        return code, time.perf_counter() - begun


@contextmanager
def running_broker(directory: Path) -> Iterator[Broker]:
    """A broker on a free port, stopped at the end whatever happens."""
    ottla = Path(sys.executable).with_name("ottla")
    command = [str(ottla), "serve", "--data", str(directory / "data"), "--port", "0"]
    begun = time.perf_counter()
    with (
        (directory / "broker.log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield Broker(process, ready_address(process, directory), time.perf_counter() - begun)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def ready_address(process: subprocess.Popen[str], directory: Path) -> str:
    """The address in the line that a broker prints when it is ready."""
    assert process.stdout is not None
    is_there, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
    line = process.stdout.readline() if is_there else ""
    if " is ready at " not in line:
        said = (directory / "broker.log").read_text()[-2000:]
        raise DemoError(f"the broker did not become ready:\n{line}{said}")
    return line.split(" is ready at ")[1].split()[0]


# What was sent, and what was read


@dataclass
class Ledger:
    """Records by partition and offset. Only checksums are kept, so a million orders fit."""

    checksums: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    partitions_of: dict[bytes, set[int]] = field(default_factory=lambda: defaultdict(set))
    count: int = 0
    in_order: bool = True
    errors: list[str] = field(default_factory=list)

    def add(self, partition: int, offset: int, key: bytes | None, digest: bytes) -> None:
        offsets = self.checksums[partition]
        if offset != len(offsets):
            self.in_order = False
        if offset in offsets:
            self.errors.append(f"offset {offset} of partition {partition} twice")
        offsets[offset] = digest
        if key is not None:
            self.partitions_of[key].add(partition)
        self.count += 1

    def end(self, partition: int) -> int:
        return len(self.checksums[partition])


@dataclass
class Rate:
    """Records per second over the last moments."""

    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def of(self, count: int) -> float:
        now = time.perf_counter()
        self.samples.append((now, count))
        while now - self.samples[0][0] > RATE_WINDOW_S:
            self.samples.popleft()
        then, before = self.samples[0]
        return (count - before) / (now - then) if now > then else 0.0


# The clients


def client_of(address: str) -> dict[str, Any]:
    """What all clients here have in common. Below a notice (5) librdkafka tells of its own housekeeping, on
    stderr.
    """
    return {"bootstrap.servers": address, "log_level": 5}


def create_topic(address: str) -> None:
    admin = AdminClient(client_of(address))
    created = admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
    created[TOPIC].result(DEADLINE_S)


class Sender:
    """One producer per compression, in turns; idempotent, acks=all."""

    def __init__(self, address: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._producers = [
            Producer(
                client_of(address)
                | {
                    "compression.type": compression,
                    "enable.idempotence": True,
                    "linger.ms": 20,
                    "error_cb": lambda error: ledger.errors.append(f"producer: {error}"),
                }
            )
            for compression in COMPRESSIONS
        ]
        self.sent = 0
        self.bytes = 0

    def send(self, order: Order) -> None:
        producer = self._producers[self.sent // ORDERS_PER_TURN % len(self._producers)]
        acknowledge = self._acknowledge(order)
        while True:
            try:
                producer.produce(TOPIC, order.value, order.key, on_delivery=acknowledge)
                break
            except BufferError:  # its queue is full: let some of it leave
                producer.poll(0.1)
        self.sent += 1
        self.bytes += len(order.value) + len(order.key or b"")
        producer.poll(0)

    def finish(self) -> None:
        """Wait for what is under way, and let the clients go: they would report the broker's stop as a
        fault.
        """
        for producer in self._producers:
            producer.flush(DEADLINE_S)
        self._producers.clear()

    def _acknowledge(self, order: Order) -> Callable[[Any, Any], None]:
        digest = checksum(order.key, order.value)

        def acknowledged(error: Any, message: Any) -> None:
            if error is not None:
                self._ledger.errors.append(f"not delivered: {error}")
            else:
                self._ledger.add(message.partition(), message.offset(), order.key, digest)

        return acknowledged


class Reader:
    """Reads all partitions from the beginning, in a thread of its own, until `expected` records were read."""

    def __init__(self, address: str) -> None:
        self.ledger = Ledger()
        self.expected: int | None = None
        self.ends: dict[int, tuple[int, int]] = {}
        self._consumer = Consumer(
            client_of(address)
            | {
                "group.id": "orders-demo",  # the client insists on one; partitions are assigned by hand
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 10,
                "error_cb": lambda error: self.ledger.errors.append(f"consumer: {error}"),
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._read, name="reader")
        self._thread.start()

    def expect(self, count: int) -> None:
        """From now on there is an end: so many records, or the deadline."""
        self._deadline = time.perf_counter() + DEADLINE_S
        self.expected = count

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        self._deadline = 0.0
        self._thread.join()

    def _read(self) -> None:
        try:
            while self.ledger.count != self.expected and time.perf_counter() < self._deadline:
                for message in self._consumer.consume(1000, timeout=0.1):
                    self._take(message)
            if self.expected is not None:
                self.ends = {
                    each: self._consumer.get_watermark_offsets(TopicPartition(TOPIC, each), timeout=10)
                    for each in range(PARTITIONS)
                }
        except KafkaException as error:
            self.ledger.errors.append(f"consumer: {error}")
        finally:
            self._consumer.close()

    def _take(self, message: Any) -> None:
        if message.error() is not None:
            self.ledger.errors.append(f"consumer: {message.error()}")
            return
        key, value = message.key(), message.value()
        self.ledger.add(message.partition(), message.offset(), key, checksum(key, value))


# What the person sees


class View:
    """A live table on a terminal, a line per second elsewhere."""

    def __init__(self, console: Console, address: str, total: int) -> None:
        self._console = console
        self._title = f"{TOPIC} through {address}"
        self._total = total
        self._begun = time.perf_counter()
        self._rates = (Rate(), Rate())
        self._live = Live(console=console, refresh_per_second=10, transient=True)
        self._next_line_s = 1.0

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, sent: Ledger, read: Ledger) -> None:
        elapsed_s = time.perf_counter() - self._begun
        produced, consumed = self._rates[0].of(sent.count), self._rates[1].of(read.count)
        if self._console.is_terminal:
            self._live.update(self._table(sent, read, elapsed_s, produced, consumed))
        elif elapsed_s >= self._next_line_s:
            self._next_line_s += 1.0
            self._console.print(
                f"{elapsed_s:5.1f} s  acknowledged {sent.count:,} ({produced:,.0f}/s)"
                f"  read {read.count:,} ({consumed:,.0f}/s)",
                highlight=False,
            )

    def _table(self, sent: Ledger, read: Ledger, elapsed_s: float, produced: float, consumed: float) -> Table:
        table = Table(
            title=self._title, caption=f"{elapsed_s:.1f} s, {sent.count / max(self._total, 1):.0%} sent"
        )
        for column in ("partition", "acknowledged", "read", "behind"):
            table.add_column(column, justify="right")
        for each in range(PARTITIONS):
            acked, seen = sent.end(each), read.end(each)
            table.add_row(
                str(each),
                f"{acked:,}",
                f"{seen:,}",
                f"{max(acked - seen, 0):,}",
                end_section=each == PARTITIONS - 1,
            )
        table.add_row("all", f"{sent.count:,}", f"{read.count:,}", f"{max(sent.count - read.count, 0):,}")
        table.add_row("per second", f"{produced:,.0f}", f"{consumed:,.0f}", "")
        return table


# The run and its checks


class Check(NamedTuple):
    claim: str
    holds: bool
    detail: str


def stream(broker: Broker, orders: int, seconds: float, console: Console) -> tuple[Sender, Ledger, Reader]:
    """Send all orders at an even pace while they are read."""
    ledger = Ledger()
    sender, reader = Sender(broker.address, ledger), Reader(broker.address)
    try:
        with View(console, broker.address, orders) as view:
            begun, next_view = time.perf_counter(), 0.0
            for number, order in enumerate(sample_orders(orders, SEED)):
                sender.send(order)
                if time.perf_counter() >= next_view:
                    view.show(ledger, reader.ledger)
                    next_view = time.perf_counter() + 0.1
                while time.perf_counter() - begun < seconds * number / orders:
                    time.sleep(0.002)
            sender.finish()
            reader.expect(orders)
            while not reader.is_done:
                view.show(ledger, reader.ledger)
                time.sleep(0.05)
    finally:
        reader.close()
    return sender, ledger, reader


def read_again(address: str, count: int) -> Reader:
    reader = Reader(address)
    reader.expect(count)
    while not reader.is_done:
        time.sleep(0.02)
    return reader


def checks_of_stream(orders: int, sent: Ledger, reader: Reader) -> Iterator[Check]:
    """CHK-1, and that what came out is what went in."""
    read, partitions = reader.ledger, range(PARTITIONS)
    for claim, ledger in ("every order was acknowledged", sent), ("every order was read", read):
        yield Check(
            claim, ledger.count == orders and not ledger.errors, first_error(ledger) or f"{ledger.count:,}"
        )
    strays = sum(len(places) > 1 for places in read.partitions_of.values())
    yield Check(
        "same key, same partition", strays == 0, f"{len(read.partitions_of)} keys, {strays} in several"
    )
    dense = all(sorted(offsets) == list(range(len(offsets))) for offsets in sent.checksums.values())
    seen = ", ".join(f"0-{sent.end(each) - 1:,}" for each in partitions)
    yield Check("offsets are sequential and dense", dense and read.in_order, seen)
    ends = [reader.ends.get(each, (-1, -1)) for each in partitions]
    seen = f"{' + '.join(f'{high:,}' for _, high in ends)} = {sum(high for _, high in ends):,}"
    yield Check("log end = count", ends == [(0, sent.end(each)) for each in partitions], seen)
    yield Check("checksums read = checksums sent", read.checksums == sent.checksums, total_checksum(read))


def checks_of_restart(
    sent: Ledger, code: int, stop_s: float, ready_s: float, again: Reader
) -> Iterator[Check]:
    """That a stop and a start change nothing."""
    yield Check("SIGTERM stops the broker cleanly", code == 0, f"exit code {code}, {stop_s:.2f} s")
    read, ends = again.ledger, {partition: (0, sent.end(partition)) for partition in range(PARTITIONS)}
    complete = read.count == sent.count and again.ends == ends
    seen = first_error(read) or f"{read.count:,}, ready again in {ready_s:.2f} s"
    yield Check("all is there after a restart", complete and not read.errors, seen)
    same = read.checksums == sent.checksums and read.in_order
    yield Check("checksums are still the same", same, total_checksum(read))


def first_error(ledger: Ledger) -> str:
    return f"{len(ledger.errors)} errors, first: {ledger.errors[0]}" if ledger.errors else ""


def total_checksum(ledger: Ledger) -> str:
    whole = blake2b(digest_size=8)
    for partition in sorted(ledger.checksums):
        for offset in sorted(ledger.checksums[partition]):
            whole.update(ledger.checksums[partition][offset])
    return whole.hexdigest()


def summarise(console: Console, checks: list[Check], sender: Sender, seconds: float, disk_bytes: int) -> bool:
    table = Table(
        title=f"{sender.sent:,} orders, {sender.bytes / 1e6:,.1f} MB in, {disk_bytes / 1e6:,.1f} MB on disk, {seconds:.1f} s"
    )
    for column in ("check", "", "what was seen"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row(check.claim, "[green]holds[/]" if check.holds else "[bold red]FAILS[/]", check.detail)
    console.print(table)
    failed = [check.claim for check in checks if not check.holds]
    if failed:
        console.print(f"[bold red]FAILED[/]: {'; '.join(failed)}", highlight=False)
    else:
        console.print(f"[bold green]All {len(checks)} checks hold.[/]", highlight=False)
    return not failed


def run(directory: Path, orders: int, seconds: float, console: Console) -> bool:
    begun = time.perf_counter()
    with running_broker(directory) as broker:
        console.print(f"A broker is ready at {broker.address} after {broker.ready_s:.2f} s.", highlight=False)
        create_topic(broker.address)
        sender, sent, reader = stream(broker, orders, seconds, console)
        checks = list(checks_of_stream(orders, sent, reader))
        code, stop_s = broker.stop()
    with running_broker(directory) as broker:
        again = read_again(broker.address, orders)
        checks += checks_of_restart(sent, code, stop_s, broker.ready_s, again)
    disk_bytes = sum(file.stat().st_size for file in (directory / "data").glob(f"{TOPIC}-*/*.log"))
    return summarise(console, checks, sender, time.perf_counter() - begun, disk_bytes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--orders", type=int, default=200_000, metavar="N", help="how many orders (default 200000)"
    )
    parser.add_argument(
        "--seconds", type=float, default=9.0, metavar="S", help="over how long they are sent (default 9)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the directory there")
    arguments = parser.parse_args()
    if arguments.orders < 1 or arguments.seconds < 0:
        parser.error("--orders must be at least 1, --seconds at least 0")
    console, directory = Console(), Path(tempfile.mkdtemp(prefix="ottla-orders-"))
    try:
        return 0 if run(directory, arguments.orders, arguments.seconds, console) else 1
    except (DemoError, KafkaException, OSError, subprocess.TimeoutExpired) as error:
        console.print("[bold red]FAILED[/]:", escape(str(error)), highlight=False, soft_wrap=True)
        return 1
    finally:
        if arguments.keep:
            console.print(f"The data is in {directory}", highlight=False, soft_wrap=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
