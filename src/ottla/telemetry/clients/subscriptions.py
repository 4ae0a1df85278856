"""What administrators ask of which clients, and what that makes for one client.

A subscription is a resource of type client-metrics (config/client_metrics.py). A client has one id for everything
that it is asked for: the id follows from the metrics, the interval and the client, so that all brokers have the same
one, and one that restarts has it again.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from ottla.config.client_metrics import DEFAULT_INTERVAL_MS, SELECTORS, ClientMetricsConfig
from ottla.config.setting import ConfigError

ALL_METRICS: Final = "*"
# A client chooses its id: the patterns see no more of it than this.
_LONGEST_TEXT: Final = 256


class Client(NamedTuple):
    """A client as its connection shows it. `instance_id` is as Kafka writes it."""

    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int
    user: str

    def texts(self) -> dict[str, str]:
        """What the patterns of subscriptions are compared with."""
        values = self.instance_id, self.client_id, self.software_name, self.software_version, self.address
        texts = (*values, str(self.port))
        return {name: text[:_LONGEST_TEXT] for name, text in zip(SELECTORS, texts, strict=True)}


class Subscription(NamedTuple):
    """One subscription."""

    name: str
    interval_ms: int
    metrics: tuple[str, ...]
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def matches(self, texts: Mapping[str, str]) -> bool:
        """Whether a client with these texts is meant."""
        return all(pattern.fullmatch(texts[name]) for name, pattern in self.patterns)


class Wanted(NamedTuple):
    """What one client is asked for: by all subscriptions that it matches."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    subscriptions: tuple[str, ...]


def subscriptions_of(resources: Mapping[str, Mapping[str, str]]) -> tuple[Subscription, ...]:
    """The usable subscriptions among stored ones; the log of a newer version may hold others."""
    found = []
    for name, texts in sorted(resources.items()):
        try:
            config = ClientMetricsConfig.from_texts(texts)
            found.append(Subscription(name, config.interval_ms, config.metrics, config.patterns()))
        except ConfigError:
            continue
    return tuple(found)


def wanted_of(subscriptions: Iterable[Subscription], client: Client, instance_id: UUID) -> Wanted:
    """What a client is asked for."""
    texts = client.texts()
    met = [each for each in subscriptions if each.matches(texts)]
    metrics = tuple(sorted({prefix for each in met for prefix in each.metrics}))
    if ALL_METRICS in metrics:
        metrics = (ALL_METRICS,)
    interval_ms = min((each.interval_ms for each in met), default=DEFAULT_INTERVAL_MS)
    names = tuple(each.name for each in met)
    return Wanted(_id_of(metrics, interval_ms, instance_id), interval_ms, metrics, names)


def _id_of(metrics: tuple[str, ...], interval_ms: int, instance_id: UUID) -> int:
    number = crc32("\0".join((str(interval_ms), *metrics)).encode()) ^ crc32(instance_id.bytes)
    return number - (1 << 32) if number >> 31 else number
