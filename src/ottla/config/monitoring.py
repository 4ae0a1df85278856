"""The settings of monitoring: where metrics, health and debugging are served, and how many series they have."""

import re
from typing import Final, NamedTuple

from ottla.config.setting import ConfigError, Form, family, setting

HTTP_LISTENER: Final = "ottla.http.listener"
OTLP_ENDPOINT: Final = "ottla.otlp.endpoint"
_ADDRESS: Final = r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:/,@\s]*)):(?P<port>[0-9]{1,5})"
_LARGEST_PORT: Final = 65535


class HttpAddress(NamedTuple):
    """Where HTTP is served. An empty host is every interface; port 0 lets the kernel choose."""

    host: str
    port: int


@family
class MonitoringConfig:
    """Who may look at a broker from outside, and how much they see."""

    http_listener: str = setting(
        HTTP_LISTENER,
        "",
        form=Form(rf"(?:{_ADDRESS})?", "host:port, such as localhost:9644, or nothing"),
        doc="Where /metrics, /health and /debug are served over HTTP, as host:port; nothing: not at all. Without a host on "
        "every interface: whoever reaches the port sees the names of topics and groups. /debug answers this machine only.",
    )
    max_partitions: int = setting(
        "ottla.metrics.max.partitions",
        10_000,
        at_least=0,
        doc="The number of partitions with series of their own in /metrics. The topics beyond are counted together as "
        "`__other__`, and ottla_metrics_hidden_topics says how many they are.",
    )
    max_group_partitions: int = setting(
        "ottla.metrics.max.group.partitions",
        10_000,
        at_least=0,
        doc="The number of committed offsets with series of their own in /metrics. The groups beyond are counted together "
        "as `__other__`, and ottla_metrics_hidden_groups says how many they are.",
    )

    client_metrics: str = setting(
        "ottla.client.metrics",
        "subscribed",
        choices=("subscribed", "always", "never"),
        doc="When clients are told, as they connect, that they may push metrics of their own (KIP-714): if there is a "
        "subscription (ottla clients subscribe), always, or never. librdkafka and Java that are told ask every few "
        "minutes what to push.",
    )
    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes",
        1 << 20,
        at_least=1,
        doc="The largest push of metrics that is taken of a client, compressed and decompressed.",
    )

    otlp_endpoint: str = setting(
        OTLP_ENDPOINT,
        "",
        form=Form(r"(?:https?://[^\s/]+(?:/\S*)?)?", "a URL, such as http://localhost:4318, or nothing"),
        doc="Where metrics are pushed to, with OTLP over HTTP: a collector of OpenTelemetry (/v1/metrics, unless the URL "
        "has a path); nothing: not at all. Headers, certificates, compression and attributes come from the usual "
        "variables OTEL_*. Needs the extra ottla[otel].",
    )
    otlp_interval_ms: int = setting(
        "ottla.otlp.interval.ms",
        60_000,
        at_least=100,
        doc="How often metrics are pushed to ottla.otlp.endpoint.",
    )

    @property
    def http_address(self) -> HttpAddress | None:
        """Where to serve HTTP; None for a broker that does not."""
        match = re.fullmatch(_ADDRESS, self.http_listener)
        return None if match is None else HttpAddress(match["ipv6"] or match["host"], int(match["port"]))

    def refuse_address(self) -> None:
        """Raise ConfigError if HTTP cannot be served there."""
        address = self.http_address
        if address is not None and address.port > _LARGEST_PORT:
            raise ConfigError(
                f"{HTTP_LISTENER} cannot be '{self.http_listener}': a port is a number from 0 to {_LARGEST_PORT}."
            )
