"""The options of the source, read and checked once. Names and meanings are those of Spark's Kafka source, and
case does not matter.

`source_options` checks what holds for every read, when the DataFrame is made; `for_batch` and `for_stream`
(in `query_bounds`) check what only they allow, when the query starts. Every message names the option, what it
was given, and what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from ottla.model import TopicPartition, parse_addresses
from ottla.security.settings import PLAINTEXT, Security
from ottla.spark.kafka_security import security_of
from ottla.spark.option_values import (
    OptionError,
    boolean,
    duration_ms,
    nearest,
    one_of,
    positive,
    whole,
)
from ottla.spark.source.plan.kafka_options import BOOTSTRAP_SERVERS, PREFIX, client_settings
from ottla.spark.source.plan.offsets import parse_partitions
from ottla.spark.source.plan.position_options import parse_position
from ottla.spark.source.plan.positions import Position, Strategy

_PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[2,4]}'

_DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
_DEFAULT_GROUP_PREFIX: Final = "spark-ottla"

# Spark adds these by itself for a table in its catalog, and our options a second time with a prefix.
_OF_THE_CATALOG: Final = (
    *("collation", "comment", "external", "is_managed_location", "location", "owner", "path", "provider"),
    "serialization.format",
)
_CATALOG_PREFIX: Final = "option."
_OPTIONS_ARE_LOST: Final = "Of a table in its catalog, Spark keeps the options to itself: use CREATE TEMPORARY VIEW ... USING ottla instead."

NAMES: Final = (
    "assign",
    "bootstrap.servers",
    "commitProgress",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupId",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "partition.metadata.cache.ttl.ms",
    "pushFilters",
    "readTier",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)


@dataclass(frozen=True, slots=True)
class Topics:
    """`subscribe`: all partitions of these topics, also those that they get later."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.names)


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """`subscribePattern`: all topics in whose name the expression is found, also those that come later."""

    pattern: str

    def __str__(self) -> str:
        return self.pattern


@dataclass(frozen=True, slots=True)
class Partitions:
    """`assign`: these partitions and no others."""

    partitions: frozenset[TopicPartition]

    def __str__(self) -> str:
        return ",".join(str(each) for each in sorted(self.partitions))


Subscription: TypeAlias = Topics | TopicPattern | Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The user's options; None where nothing was given and there is no default."""

    bootstrap_servers: str
    client: Mapping[str, str]
    subscription: Subscription
    starting: Position | None
    ending: Position | None
    strategy: Strategy = "error"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = _DEFAULT_MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    metadata_cache_ttl_ms: int = -1
    num_retries: int = 3
    retry_interval_ms: int = 1_000
    group_id: str
    commit_progress: bool = True
    push_filters: bool = False
    read_tier: bool = False
    security: Security = PLAINTEXT
    given: frozenset[str] = field(default=frozenset())

    @property
    def read_committed(self) -> bool:
        return self.client.get("isolation.level") == "read_committed"


class _Given:
    """The options as they were given, by lower-case name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.values = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def number(self, name: str, default: int, *, zero: bool = False) -> int:
        text = self.text(name)
        return default if text is None else positive(name, text, zero=zero)

    def number_or_none(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else positive(name, text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        return default if text is None else boolean(name, text)


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Read all options, or raise an OptionError that says what is wrong with the first bad one."""
    given = _Given(options)
    _refuse_unknown(given)
    subscription = _subscription(given)
    client = client_settings(given.values)
    if (poll_timeout_ms := given.number_or_none("kafkaConsumer.pollTimeoutMs")) is not None:
        client.setdefault("default.api.timeout.ms", str(poll_timeout_ms))
    parsed = SourceOptions(
        bootstrap_servers=_bootstrap_servers(given, client),
        client=client,
        subscription=subscription,
        starting=parse_position(given.text, "starting"),
        ending=parse_position(given.text, "ending"),
        strategy=_strategy(given),
        include_headers=given.flag("includeHeaders", default=False),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        max_offsets_per_trigger=given.number_or_none("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=given.number_or_none("minOffsetsPerTrigger"),
        max_trigger_delay_ms=_max_trigger_delay_ms(given),
        min_partitions=given.number_or_none("minPartitions"),
        max_records_per_partition=given.number_or_none("maxRecordsPerPartition"),
        metadata_cache_ttl_ms=_metadata_cache_ttl_ms(given),
        num_retries=given.number("fetchOffset.numRetries", 3),
        retry_interval_ms=given.number("fetchOffset.retryIntervalMs", 1_000, zero=True),
        group_id=_group_id(given, client, subscription),
        commit_progress=given.flag("commitProgress", default=True),
        push_filters=given.flag("pushFilters", default=False),
        read_tier=given.flag("readTier", default=False),
        security=security_of(given.values),
        given=frozenset(given.values),
    )
    _check_triggers(parsed)
    return parsed


def _refuse_unknown(given: _Given) -> None:
    known = {name.lower() for name in NAMES}
    for name in given.values:
        if name in known or name in _OF_THE_CATALOG or name.startswith((PREFIX, _CATALOG_PREFIX)):
            continue
        guess = nearest(name, (*NAMES, "kafka.bootstrap.servers"))
        hint = (
            f"Did you mean '{guess}'?"
            if guess
            else f"There are: {', '.join(NAMES)}, and those that begin with 'kafka.'."
        )
        raise OptionError(f"Option '{name}' is unknown. {hint}")


def _bootstrap_servers(given: _Given, client: dict[str, str]) -> str:
    servers = client.pop(BOOTSTRAP_SERVERS, None) or (given.text(BOOTSTRAP_SERVERS) or "").strip()
    if not servers:
        raise OptionError(
            "Option 'kafka.bootstrap.servers' is missing: say which brokers to ask, "
            'as in .option("kafka.bootstrap.servers", "localhost:9092").'
        )
    try:
        parse_addresses(servers)
    except ValueError as error:
        raise OptionError(f"Option 'kafka.bootstrap.servers' is '{servers}': {error}.") from None
    return servers


def _subscription(given: _Given) -> Subscription:
    ways = ("subscribe", "subscribePattern", "assign")
    chosen = [name for name in ways if given.text(name) is not None]
    if not chosen:
        table = "" if given.values else f" {_OPTIONS_ARE_LOST}"
        raise OptionError(
            "One of the options 'subscribe', 'subscribePattern' and 'assign' must say what to read, "
            f'as in .option("subscribe", "orders").{table}'
        )
    if len(chosen) > 1:
        raise OptionError(f"Only one of the options {', '.join(map(repr, chosen))} can be given.")
    text = given.values[chosen[0].lower()]
    return _READ_AS[chosen[0]](text)


def _topics(text: str) -> Topics:
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not names:
        raise OptionError(
            f"Option 'subscribe' names no topic: '{text}'. Give one or several, as in 'orders,payments'."
        )
    return Topics(names)


def _pattern(text: str) -> TopicPattern:
    pattern = text.strip()
    if not pattern:
        raise OptionError("Option 'subscribePattern' is empty. Give a regular expression, as in 'orders-.*'.")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(
            f"Option 'subscribePattern' is not a regular expression: '{pattern}': {error}."
        ) from None
    return TopicPattern(pattern)


def _partitions(text: str) -> Partitions:
    try:
        partitions = parse_partitions(text)
    except ValueError as error:
        raise OptionError(
            f"Option 'assign' must be JSON such as {_PARTITIONS_EXAMPLE}, not '{text}': {error}."
        ) from None
    if not partitions:
        raise OptionError(
            f"Option 'assign' names no partition: '{text}'. Give some, as in {_PARTITIONS_EXAMPLE}."
        )
    return Partitions(partitions)


_READ_AS: Final[Mapping[str, Callable[[str], Subscription]]] = {
    "subscribe": _topics,
    "subscribePattern": _pattern,
    "assign": _partitions,
}


def _strategy(given: _Given) -> Strategy:
    name = "startingOffsetsByTimestampStrategy"
    text = given.text(name)
    return "error" if text is None else cast(Strategy, one_of(name, text, ("error", "latest")))


def _max_trigger_delay_ms(given: _Given) -> int:
    text = given.text("maxTriggerDelay")
    return _DEFAULT_MAX_TRIGGER_DELAY_MS if text is None else duration_ms("maxTriggerDelay", text)


def _metadata_cache_ttl_ms(given: _Given) -> int:
    name = "partition.metadata.cache.ttl.ms"
    text = given.text(name)
    ttl_ms = -1 if text is None else whole(name, text)
    if ttl_ms != -1 and ttl_ms < 1:
        raise OptionError(
            f"Option '{name}' must be a positive number of milliseconds, or -1 for no cache, not '{text}'."
        )
    return ttl_ms


def _group_id(given: _Given, client: dict[str, str], subscription: Subscription) -> str:
    named = client.pop("group.id", None)
    if (text := given.text("groupId")) is not None:
        named = text.strip()
        if not named:
            raise OptionError("Option 'groupId' is empty. Name the group, or set 'commitProgress' to false.")
    prefix = (given.text("groupIdPrefix") or "").strip() or _DEFAULT_GROUP_PREFIX
    return named or f"{prefix}-{subscription}"


def _check_triggers(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"Option 'minOffsetsPerTrigger' ({least}) must not be greater than 'maxOffsetsPerTrigger' ({most})."
        )
