"""The settings of a gateway (`ottla gateway`): a process of its own, with settings of its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ottla.config.setting import ConfigError, ConfigType, Form, family, parse_values, setting

PREFIX: Final = "ottla.gateway."

_ORIGIN: Final = Form(
    r"\*|https?://[^\s/]+", "* or an origin such as https://shop.example, several with commas"
)
_URL: Final = Form(r"https?://\S+[^/\s]", "an address such as https://events.example, without a / at the end")


@family
class GatewayConfig:
    """What a gateway serves, to how many, and for how long it waits."""

    listen: str = setting(
        "ottla.gateway.listen",
        "localhost:8082",
        doc="The host and port of the gateway; port 0 is any that is free. An empty host (`:8082`) is all addresses.",
    )
    grpc_listen: str | None = setting(
        "ottla.gateway.grpc.listen",
        None,
        type=ConfigType.STRING,
        doc="The host and port for gRPC, such as `localhost:9090`; port 0 is any that is free. Not set: no gRPC.",
    )
    advertised_url: str | None = setting(
        "ottla.gateway.advertised.url",
        None,
        type=ConfigType.STRING,
        form=_URL,
        doc="The address of this gateway as callers see it, for the base_uri of consumer instances; not set: the Host "
        "header of the request. Behind a load balancer it must lead to this gateway and to no other one.",
    )
    peer_urls: tuple[str, ...] = setting(
        "ottla.gateway.peer.urls",
        (),
        form=_URL,
        doc="The advertised addresses of the other gateways in front of this cluster, with commas. A request for a "
        "consumer instance of one of them is answered with status 307 and the address; not set: with 404.",
    )
    certificate_file: str | None = setting(
        "ottla.gateway.certificate.file",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the certificate chain of the gateway: with it, the gateway speaks only TLS.",
    )
    key_file: str | None = setting(
        "ottla.gateway.key.file",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the private key for ottla.gateway.certificate.file; not set: the key is in that file.",
    )
    key_password: str | None = setting(
        "ottla.gateway.key.password",
        None,
        type=ConfigType.STRING,
        sensitive=True,
        doc="The password of the private key, if it is encrypted.",
    )
    client_ca_file: str | None = setting(
        "ottla.gateway.client.ca.file",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the authorities whose certificates callers may show, if ottla.gateway.client.auth asks for "
        "one.",
    )
    client_auth: str = setting(
        "ottla.gateway.client.auth",
        "none",
        choices=("none", "requested", "required"),
        doc="Whether callers are asked for a certificate, or must have one. A caller that sends no Authorization header "
        "then acts as the principal of its certificate, by a delegation token that the gateway gets for it: the "
        "gateway's own client properties need a login with the right to create tokens for these users. gRPC asks "
        "only if the value is required.",
    )
    client_principal_rules: str = setting(
        "ottla.gateway.client.principal.rules",
        "DEFAULT",
        doc="How the subject of a caller's certificate becomes the name of its user, as ssl.principal.mapping.rules "
        "says it for brokers.",
    )
    login_mechanism: str | None = setting(
        "ottla.gateway.login.mechanism",
        None,
        type=ConfigType.STRING,
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        doc="How the user name and password of a caller (Basic) log in to the cluster; not set: the sasl.mechanism of "
        "the gateway's own client properties, and where there is none, callers cannot log in.",
    )
    requires_login: bool | None = setting(
        "ottla.gateway.login.required",
        None,
        type=ConfigType.BOOLEAN,
        doc="Whether callers without a login are refused. Otherwise they act with the gateway's own client properties. "
        "Not set: true if those properties log in to the cluster or show a certificate, so that nobody acts in the "
        "gateway's name by chance.",
    )
    allowed_origins: tuple[str, ...] = setting(
        "ottla.gateway.allowed.origins",
        (),
        form=_ORIGIN,
        doc="The web pages, by their origin, whose scripts may call the gateway from a browser (CORS, WebSocket); `*` "
        "for all. Pages of the gateway's own host always may.",
    )
    max_connections: int = setting(
        "ottla.gateway.max.connections",
        10_000,
        at_least=1,
        doc="How many connections are open at once; a further one is answered with status 503 and closed.",
    )
    max_body_bytes: int = setting(
        "ottla.gateway.max.body.bytes",
        16 << 20,
        at_least=1,
        doc="The largest body of a request; a larger one is answered with status 413. The same limit holds for a "
        "message of gRPC, which gets RESOURCE_EXHAUSTED.",
    )
    max_instances: int = setting(
        "ottla.gateway.max.instances",
        1_000,
        at_least=0,
        doc="How many consumer instances of REST v2 exist at once; each has connections of its own to the cluster.",
    )
    max_readers: int = setting(
        "ottla.gateway.max.readers",
        256,
        at_least=0,
        doc="How many stateless reads and event streams are under way at once.",
    )
    max_sockets: int = setting(
        "ottla.gateway.max.sockets",
        5_000,
        at_least=0,
        doc="How many WebSockets are open at once; a further one is closed with code 1013.",
    )
    max_streams: int = setting(
        "ottla.gateway.max.streams",
        5_000,
        at_least=0,
        doc="How many streams of gRPC are open at once; a further one gets RESOURCE_EXHAUSTED.",
    )
    max_callers: int = setting(
        "ottla.gateway.max.callers",
        256,
        at_least=1,
        doc="For how many different logins the gateway keeps connections to the cluster open.",
    )
    max_idempotency_keys: int = setting(
        "ottla.gateway.max.idempotency.keys",
        10_000,
        at_least=1,
        doc="How many requests with an Idempotency-Key are remembered; the oldest is forgotten first.",
    )
    max_topics: int = setting(
        "ottla.gateway.max.topics",
        100,
        at_least=1,
        doc="How many topics one subscription may name.",
    )
    head_timeout_ms: int = setting(
        "ottla.gateway.head.timeout.ms",
        10_000,
        at_least=1,
        doc="Within this time a caller has to send the head of a request; else status 408.",
    )
    body_timeout_ms: int = setting(
        "ottla.gateway.body.timeout.ms",
        30_000,
        at_least=1,
        doc="Within this time a caller has to send the body of a request; else status 408. A body that is a stream of "
        "records may be silent for this long.",
    )
    send_timeout_ms: int = setting(
        "ottla.gateway.send.timeout.ms",
        30_000,
        at_least=1,
        doc="A caller that takes nothing of its answer for this long loses its connection.",
    )
    idle_timeout_ms: int = setting(
        "ottla.gateway.idle.timeout.ms",
        75_000,
        at_least=1,
        doc="A connection without a request for this long is closed.",
    )
    instance_idle_ms: int = setting(
        "ottla.gateway.instance.idle.ms",
        300_000,
        at_least=1,
        doc="A consumer instance that no request has used for this long is closed, and leaves its group.",
    )
    client_idle_ms: int = setting(
        "ottla.gateway.client.idle.ms",
        600_000,
        at_least=1,
        doc="The connections to the cluster of a login that no request has used for this long are closed.",
    )
    max_transactions: int = setting(
        "ottla.gateway.max.transactions",
        100,
        at_least=0,
        doc="How many transactions over REST are open at once; each has a producer of its own.",
    )
    transaction_idle_ms: int = setting(
        "ottla.gateway.transaction.idle.ms",
        60_000,
        at_least=1,
        doc="A transaction over REST that no request has used for this long is aborted.",
    )
    idempotency_ms: int = setting(
        "ottla.gateway.idempotency.ms",
        600_000,
        at_least=1,
        doc="How long a request with an Idempotency-Key is remembered, by this gateway and until it ends.",
    )
    cluster_timeout_ms: int = setting(
        "ottla.gateway.cluster.timeout.ms",
        15_000,
        at_least=1,
        doc="How long the cluster may take to answer a question about topics, offsets or groups; else status 503.",
    )
    default_wait_ms: int = setting(
        "ottla.gateway.default.wait.ms",
        1_000,
        at_least=0,
        doc="How long a read of a consumer instance waits for records if the request does not say it.",
    )
    max_wait_ms: int = setting(
        "ottla.gateway.max.wait.ms",
        60_000,
        at_least=0,
        doc="How long a read waits for records at most; a request that asks for more waits this long.",
    )
    ping_interval_ms: int = setting(
        "ottla.gateway.ping.interval.ms",
        30_000,
        at_least=1,
        doc="How often a WebSocket is asked whether it is there; one that has not answered by the next time is closed. "
        "Event streams send a comment as often.",
    )
    console: str = setting(
        "ottla.gateway.console",
        "read",
        choices=("off", "read", "write"),
        doc="The web page at /console: `read` shows and changes nothing, `write` also changes what its user may change "
        "(`ottla gateway --console-writes`), `off` serves no page.",
    )
    console_idle_ms: int = setting(
        "ottla.gateway.console.idle.ms",
        1_800_000,
        at_least=1,
        doc="A login to the console that no request has used for this long ends.",
    )
    stop_timeout_ms: int = setting(
        "ottla.gateway.stop.timeout.ms",
        10_000,
        at_least=0,
        doc="How long a gateway that is stopped waits for requests that are under way.",
    )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "GatewayConfig":
        """A configuration from named texts; ConfigError, in one sentence, if it cannot be used."""
        config: GatewayConfig = replace(cls(), **parse_values(cls, properties))
        config.refuse_contradictions()
        return config

    def refuse_contradictions(self) -> None:
        """Raise ConfigError if the settings, each fine by itself, cannot be used together."""
        for name, given in (("key.file", self.key_file), ("key.password", self.key_password)):
            if given is not None and self.certificate_file is None:
                raise ConfigError(f"{PREFIX}{name} needs {PREFIX}certificate.file: there is no certificate.")
        if self.client_auth == "none":
            return
        for name, given in (
            ("certificate.file", self.certificate_file),
            ("client.ca.file", self.client_ca_file),
        ):
            if given is None:
                raise ConfigError(f"{PREFIX}client.auth={self.client_auth} needs {PREFIX}{name}.")
