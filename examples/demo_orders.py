"""The orders of the demo: a generator that sends bad ones, late ones and some of them twice, and remembers
what it sent.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ottla import Producer
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport

TOPIC = "orders"
COUNTRIES = ("AT", "CZ", "DE", "IT", "SI")
CUSTOMERS = 200
BAD_EVERY = 40  # orders: one of so many is no order at all, or has no usable amount
LATE_EVERY = 60  # … was placed minutes ago: its window is closed
TWICE_EVERY = 50  # … is sent twice, as by a shop that did not wait for an answer
_LATE = timedelta(minutes=5)
_TURN_S = 0.02
_RATE_WINDOW_S = 3.0


class Order(NamedTuple):
    """A record to send, and what is special about it."""

    key: str
    value: bytes
    kind: str  # good, bad, late, twice


def sample_orders(seed: int) -> Iterator[Order]:
    """Orders without end, the same for the same seed but for the time at which they are placed."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        customer = f"c-{chance.randrange(CUSTOMERS):03d}"
        fields = {
            "order_id": f"o-{number:06d}",
            "customer": customer,
            "country": chance.choice(COUNTRIES),
            "placed_at": moment(datetime.now(UTC)),
            "items": chance.randint(1, 6),
            "amount": chance.randint(500, 20_000) / 100,
        }
        if number % BAD_EVERY == 0:
            yield Order(customer, _spoiled(fields, chance), "bad")
        elif number % LATE_EVERY == 0:
            yield Order(customer, encoded(fields | {"placed_at": moment(datetime.now(UTC) - _LATE)}), "late")
        elif number % TWICE_EVERY == 0:
            yield Order(customer, encoded(fields), "good")
            yield Order(customer, encoded(fields), "twice")
        else:
            yield Order(customer, encoded(fields), "good")


def moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encoded(fields: dict[str, object]) -> bytes:
    return json.dumps(fields).encode()


def _spoiled(fields: dict[str, object], chance: random.Random) -> bytes:
    """An order as programs send it on a bad day."""
    return chance.choice(
        [
            b"<order>no JSON at all</order>",
            encoded({name: value for name, value in fields.items() if name != "amount"}),
            encoded(fields | {"amount": -1.0}),
            encoded(fields | {"amount": "many"}),
        ]
    )


@dataclass
class Sent:
    """What the generator did, for everybody to read while it goes on."""

    kinds: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    errors: list[str] = field(default_factory=list)
    pauses: list[tuple[float, float]] = field(
        default_factory=list
    )  # between acknowledgements of one partition
    _last: dict[int, float] = field(default_factory=dict)
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    def acknowledge(self, outcome: DeliveryReport | DeliveryError) -> None:
        if isinstance(outcome, DeliveryError):
            self.errors.append(str(outcome))
            return
        now = time.monotonic()
        self.acknowledged += 1
        before = self._last.get(outcome.partition, now)
        self._last[outcome.partition] = now
        if now - before > 2 * _TURN_S:
            self.pauses.append((before, now))

    def longest_pause_ms(self, since: float, until: float) -> float:
        """The longest time that some partition had no acknowledgement, of those that overlap a time."""
        overlapping = [end - begin for begin, end in self.pauses if begin < until and end > since]
        return 1000 * max(overlapping, default=0.0)

    def rate(self) -> float:
        """Acknowledged records per second over the last moments."""
        now = time.monotonic()
        self._samples.append((now, self.acknowledged))
        while now - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()
        then, count = self._samples[0]
        return (self.acknowledged - count) / (now - then) if now > then else 0.0


class Generator:
    """Sends orders from a thread of its own until it is told to stop; idempotent, acks=all."""

    def __init__(self, bootstrap: str, per_second: float, seed: int) -> None:
        self.sent = Sent()
        self._bootstrap, self._per_second, self._seed = bootstrap, per_second, seed
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until everything is acknowledged."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._send_all())
        except Exception as error:
            self.sent.errors.append(str(error))

    async def _send_all(self) -> None:
        orders, begun = sample_orders(self._seed), time.monotonic()
        async with Producer(self._bootstrap, linger_ms=5) as producer:
            while not self._is_stopping.is_set():
                due = int((time.monotonic() - begun) * self._per_second)
                while self.sent.total < due:
                    self._send(producer, next(orders))
                    await producer.drain()
                await asyncio.sleep(_TURN_S)

    def _send(self, producer: Producer, order: Order) -> None:
        producer.send_soon(TOPIC, order.value, order.key, on_delivery=self.sent.acknowledge)
        self.sent.kinds[order.kind] += 1
