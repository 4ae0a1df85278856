"""A subscription to metrics of clients (KIP-714): the settings of a resource of type client-metrics.

Names, bounds and defaults are Kafka's. A client pushes the metrics of all subscriptions that it matches.
"""

import re
from collections.abc import Mapping
from typing import Final, Self

from ottla.config.setting import ConfigError, ConfigType, Form, family, parse_values, setting

DEFAULT_INTERVAL_MS: Final = 300_000
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_LONGEST_PATTERN: Final = 200


@family
class ClientMetricsConfig:
    """What one subscription asks for, and of which clients."""

    interval_ms: int = setting(
        "interval.ms",
        DEFAULT_INTERVAL_MS,
        at_least=100,
        at_most=3_600_000,
        dynamic=True,
        doc="How often a client pushes its metrics. A client of several subscriptions takes the shortest.",
    )
    metrics: tuple[str, ...] = setting(
        "metrics",
        (),
        type=ConfigType.LIST,
        dynamic=True,
        doc="How the names of the metrics begin that are asked for; * is all of them, nothing is none.",
    )
    match: tuple[str, ...] = setting(
        "match",
        (),
        type=ConfigType.LIST,
        form=Form(
            rf"(?:{'|'.join(SELECTORS)})=.{{1,{_LONGEST_PATTERN}}}",
            f"a list of NAME=PATTERN with the names {', '.join(SELECTORS)}",
        ),
        dynamic=True,
        doc="Which clients are meant: all patterns, which are regular expressions, must match; nothing is every client.",
    )

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """The subscription from named texts; ConfigError, in one sentence, if they cannot be used."""
        return cls(**parse_values(cls, texts))

    def patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """The names and patterns of `match`. Raises ConfigError."""
        return tuple(_pattern(each) for each in self.match)


def _pattern(item: str) -> tuple[str, re.Pattern[str]]:
    name, _, text = item.partition("=")
    try:
        return name, re.compile(text)
    except re.error as error:
        raise ConfigError(f"match cannot be '{item}': the regular expression is wrong, {error}.") from None
