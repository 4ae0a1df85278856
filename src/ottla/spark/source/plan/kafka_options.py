"""The options that begin with `kafka.`: settings of the client that reads.

Spark hands them to Java's consumer as they are. Three kinds here:
- what our client has, under Kafka's name: it is used (how the cluster is secured is read in `kafka_security`);
- what Java's consumer has and ours does not need: it is accepted and has no effect, so that a job that ran
  with it still runs;
- what would break the source's promises: refused, as Spark refuses it, with the option to use instead.
Anything else is a mistake, and the error names the nearest setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.spark.kafka_security import is_about_security
from ottla.spark.option_values import OptionError, nearest, one_of, positive

PREFIX: Final = "kafka."
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"

# The options of Kafka's client that the source knows. `scan.py` and `topics.py` read them from here by these
# names.
USED: Final = (
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
)

_NUMBERS: Final = (
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
)

# Settings of Java's consumer without a meaning here: how its threads, buffers and metrics work, or membership
# in a group, which a Spark query never asks for.
WITHOUT_EFFECT: Final = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "client.rack",
    "config.providers",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "throw.on.fetch.stable.offset.unsupported",
)

_REFUSED: Final = {
    "auto.offset.reset": "use 'startingOffsets': it says where a new query starts, and a restarted one goes on where it was",
    "key.deserializer": "keys are binary; cast or decode them with DataFrame functions",
    "value.deserializer": "values are binary; cast or decode them with DataFrame functions",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint; 'groupId' shows a query's progress in a group",
    "interceptor.classes": "interceptors could change the records",
}


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings from the options (names in lower case, with their prefix), checked; those without effect
    are left out.
    """
    settings: dict[str, str] = {}
    for option, value in options.items():
        if not option.startswith(PREFIX):
            continue
        name = option.removeprefix(PREFIX)
        if reason := _REFUSED.get(name):
            raise OptionError(f"Option 'kafka.{name}' is not supported: {reason}.")
        if name in USED:
            settings[name] = _checked(name, value)
        elif name not in WITHOUT_EFFECT and not is_about_security(name):
            raise OptionError(_unknown(name))
    return settings


def _checked(name: str, value: str) -> str:
    option = f"{PREFIX}{name}"
    if name in _NUMBERS:
        return str(positive(option, value, zero=name == "fetch.max.wait.ms"))
    if name == "isolation.level":
        return one_of(option, value, ("read_uncommitted", "read_committed"))
    if name == "check.crcs":
        return one_of(option, value, ("true", "false"))
    if not value.strip():
        raise OptionError(f"Option '{option}' must not be empty.")
    return value.strip()


def _unknown(name: str) -> str:
    guess = nearest(name, (*USED, *WITHOUT_EFFECT, *_REFUSED))
    hint = f" Did you mean 'kafka.{guess}'?" if guess else " See docs/spark.md for those that there are."
    return f"Option 'kafka.{name}' is unknown: no Kafka consumer has such a setting.{hint}"
