"""The options of the sink, read and checked once, on the driver. Names are those of Spark's Kafka sink, and
case does not matter.

Options of the source are let pass, for many jobs have one set of options for reading and writing. The
settings of the client (`kafka.`) are those of Java's producer:
- what our producer has: it is used;
- what only makes sense in Java: it has no effect, so that a job that ran with it still runs;
- what would break what the sink promises: refused, with the way to get what was probably wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.client.producer.producer import Producer
from ottla.security.settings import PLAINTEXT
from ottla.spark.kafka_security import is_about_security, security_of
from ottla.spark.option_values import OptionError, boolean, nearest, one_of, positive
from ottla.spark.source.plan.kafka_options import BOOTSTRAP_SERVERS, PREFIX, USED, WITHOUT_EFFECT
from ottla.spark.source.plan.options import NAMES as SOURCE_NAMES

_NAMES: Final = (
    "topic",
    "delivery",
    "txnAppId",
    "txnVersion",
    "bootstrap.servers",
    "kafka.bootstrap.servers",
)
# Spark's own, for whatever it writes.
_OF_SPARK: Final = (
    "asyncprogresstrackingcheckpointintervalms",
    "asyncprogresstrackingenabled",
    "checkpointlocation",
    "path",
    "queryname",
    "serialization.format",
)
_TRANSACTIONS: Final = 'the sink names its transactions itself; .option("delivery", "exactly-once") makes it write in transactions'
_ONLY_EXACTLY_ONCE: Final = 'it goes with .option("delivery", "exactly-once")'
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
AUTO: Final = "auto"
# The longest that brokers allow by default: the time between the first record of a batch and its commit.
_TRANSACTION_TIMEOUT_MS: Final = 900_000


def _positive(option: str, text: str) -> int:
    return positive(option, text)


def _from_zero(option: str, text: str) -> int:
    return positive(option, text, zero=True)


def _text(option: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"Option '{option}' must not be empty.")
    return text.strip()


def _acks(option: str, text: str) -> str | int:
    value = one_of(option, text, ("all", "-1", "0", "1"))
    return value if value == "all" else int(value)


def _compression(option: str, text: str) -> str:
    return one_of(option, text, ("none", "gzip", "snappy", "lz4", "zstd"))


# Java's name of a setting: the name that our producer has for it, and how its value is read.
PRODUCER_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str, str], Any]]]] = {
    "acks": ("acks", _acks),
    "batch.size": ("batch_size", _positive),
    "buffer.memory": ("buffer_memory", _positive),
    "client.id": ("client_id", _text),
    "compression.gzip.level": ("compression_level", _positive),
    "compression.lz4.level": ("compression_level", _positive),
    "compression.type": ("compression", _compression),
    "compression.zstd.level": ("compression_level", _positive),
    "delivery.timeout.ms": ("delivery_timeout_ms", _positive),
    "enable.idempotence": ("enable_idempotence", boolean),
    "linger.ms": ("linger_ms", _from_zero),
    "max.block.ms": ("max_block_ms", _from_zero),
    "max.in.flight.requests.per.connection": ("max_in_flight_requests_per_connection", _positive),
    "max.request.size": ("max_request_size", _positive),
    "metadata.max.age.ms": ("metadata_max_age_ms", _positive),
    "request.timeout.ms": ("request_timeout_ms", _positive),
    "retries": ("retries", _from_zero),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", _from_zero),
    "retry.backoff.ms": ("retry_backoff_ms", _from_zero),
}
# Those of transactions: with at-least-once delivery the first has no effect, and the second is refused.
_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_TWO_PHASE_COMMIT: Final = "transaction.two.phase.commit.enable"
TRANSACTION_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str, str], Any]]]] = {
    _TRANSACTION_TIMEOUT: ("transaction_timeout_ms", _positive),
    _TWO_PHASE_COMMIT: ("two_phase_commit", boolean),
}

_WITHOUT_EFFECT: Final = (
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "config.providers",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    _TRANSACTION_TIMEOUT,
)

_REFUSED: Final = {
    "key.serializer": "keys are string or binary columns; encode them with DataFrame functions",
    "value.serializer": "values are string or binary columns; encode them with DataFrame functions",
    "interceptor.classes": "interceptors are Java classes; change records with DataFrame functions",
    "partitioner.class": "it names a Java class; fill the column 'partition' instead",
    "partitioner.ignore.keys": "fill the column 'partition' instead",
    "transactional.id": _TRANSACTIONS,
    _TWO_PHASE_COMMIT: _ONLY_EXACTLY_ONCE,
}
_MISSING: Final = (
    "Option 'kafka.bootstrap.servers' is missing: say which brokers to write to, "
    'as in .option("kafka.bootstrap.servers", "localhost:9092").'
)


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """The wish for exactly-once delivery: who writes, and which version of what is written; None if Spark says it.
    With `is_optional`, brokers that cannot do it get the rows at least once.
    """

    app_id: str | None = None
    version: int | None = None
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write: `topic` is None where the rows say it. `producer` are the arguments of our producer.
    `exactly_once` is None with at-least-once delivery.
    """

    bootstrap_servers: str
    topic: str | None
    producer: Mapping[str, Any]
    exactly_once: ExactlyOnce | None = None

    def at_least_once(self) -> SinkOptions:
        """The same without the wish for exactly-once delivery."""
        transactional = {ours for ours, _ in TRANSACTION_SETTINGS.values()}
        kept = {name: value for name, value in self.producer.items() if name not in transactional}
        return replace(self, producer=kept, exactly_once=None)


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read all options, or raise an OptionError that says what is wrong with the first bad one."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        _refuse_unknown(name)
    exactly_once = _exactly_once(given)
    settings: dict[str, Any] = {}
    for name, value in given.items():
        if name.startswith(PREFIX):
            settings |= _setting(name.removeprefix(PREFIX), value, is_exactly_once=exactly_once is not None)
    if exactly_once is not None:
        settings.setdefault("transaction_timeout_ms", _TRANSACTION_TIMEOUT_MS)
    if (security := security_of(given)) != PLAINTEXT:
        settings["security"] = security
    servers = (given.get(PREFIX + BOOTSTRAP_SERVERS) or given.get(BOOTSTRAP_SERVERS) or "").strip()
    if not servers:
        raise OptionError(_MISSING)
    topic = given.get("topic")
    if topic is not None:
        topic = _text("topic", topic)
    return SinkOptions(servers, topic, _possible(servers, settings, exactly_once), exactly_once)


def _exactly_once(given: Mapping[str, str]) -> ExactlyOnce | None:
    delivery = one_of("delivery", given.get("delivery", AT_LEAST_ONCE), (AT_LEAST_ONCE, EXACTLY_ONCE, AUTO))
    app_id, version = given.get("txnappid"), given.get("txnversion")
    if delivery == AT_LEAST_ONCE:
        for name, value in (("txnAppId", app_id), ("txnVersion", version)):
            if value is not None:
                raise OptionError(f"Option '{name}' has no meaning here: {_ONLY_EXACTLY_ONCE}.")
        return None
    if boolean("asyncProgressTrackingEnabled", given.get("asyncprogresstrackingenabled", "false")):
        raise OptionError(
            "Option 'asyncProgressTrackingEnabled' does not go with exactly-once delivery: Spark would repeat batches "
            "that it has forgotten to have planned in another way."
        )
    if app_id is not None and ("/" in _text("txnAppId", app_id)):
        raise OptionError(f"Option 'txnAppId' must not contain '/': '{app_id}'.")
    number = None if version is None else positive("txnVersion", version, zero=True)
    return ExactlyOnce(None if app_id is None else app_id.strip(), number, is_optional=delivery == AUTO)


def _refuse_unknown(name: str) -> None:
    if name.replace(".", "") == "transactionalid":
        raise OptionError(f"Option '{name}' is not supported: {_TRANSACTIONS}.")
    known = {each.lower() for each in (*_NAMES, *SOURCE_NAMES)}
    if name.startswith(PREFIX) or name in known or name in _OF_SPARK:
        return
    guess = nearest(name, (*_NAMES, *SOURCE_NAMES))
    hint = (
        f"Did you mean '{guess}'?"
        if guess
        else "There are: topic, delivery, and those that begin with 'kafka.'."
    )
    raise OptionError(f"Option '{name}' is unknown. {hint}")


def _setting(name: str, value: str, *, is_exactly_once: bool) -> dict[str, Any]:
    """The producer's argument that a setting of Java's producer means; none if it has no effect."""
    if is_exactly_once and name in TRANSACTION_SETTINGS:
        ours, read = TRANSACTION_SETTINGS[name]
        return {ours: read(PREFIX + name, value)}
    if name == BOOTSTRAP_SERVERS or name in _WITHOUT_EFFECT or is_about_security(name):
        return {}
    if name in PRODUCER_SETTINGS:
        ours, read = PRODUCER_SETTINGS[name]
        return {ours: read(PREFIX + name, value)}
    if name in _REFUSED:
        if name in ("partitioner.ignore.keys", _TWO_PHASE_COMMIT) and not boolean(PREFIX + name, value):
            return {}
        raise OptionError(f"Option 'kafka.{name}' is not supported: {_REFUSED[name]}.")
    return _of_the_consumer(name)


def _of_the_consumer(name: str) -> dict[str, Any]:
    """Settings of a consumer may be among those that a job has for both; anything else is a mistake."""
    if name in USED or name in WITHOUT_EFFECT:
        return {}
    guess = nearest(name, (*PRODUCER_SETTINGS, *_WITHOUT_EFFECT, *_REFUSED))
    hint = f" Did you mean 'kafka.{guess}'?" if guess else " See docs/spark.md for those that there are."
    raise OptionError(f"Option 'kafka.{name}' is unknown: no Kafka producer has such a setting.{hint}")


def _possible(
    servers: str, settings: Mapping[str, Any], exactly_once: ExactlyOnce | None
) -> Mapping[str, Any]:
    """The settings, if a producer can be made of them: some do not go together."""
    try:
        Producer(servers, transactional_id=None if exactly_once is None else "sink", **settings)
    except ValueError as error:
        raise OptionError(f"The options of the producer cannot be carried out: {error}.") from None
    return settings
