"""The settings of logins: how clients and brokers say who they are, on listeners with SASL."""

from typing import Final

from ottla.config.setting import INT_MAX, ConfigError, ConfigType, Form, family, setting

PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER")
JAAS: Final = "sasl.jaas.config"

_FILE: Final = Form(r"(?s).+", "the path of a file")
_USER: Final = Form(r"(?s).+", "the name of a user")


@family
class SaslConfig:
    """Who may log in, how, and how long a login counts."""

    enabled_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        choices=MECHANISMS,
        doc="The mechanisms by which clients may log in on listeners with SASL. PLAIN sends the password and OAUTHBEARER the "
        "token as it is, so they belong on SASL_SSL only. Kafka's default, GSSAPI, is not served.",
    )
    inter_broker_mechanism: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "SCRAM-SHA-512",
        choices=PASSWORD_MECHANISMS,
        doc="The mechanism by which brokers log in to each other, one of sasl.enabled.mechanisms. Brokers have a password in "
        "a file, so that they find each other before an identity provider answers: OAUTHBEARER is for clients.",
    )
    users_file: str | None = setting(
        "ottla.sasl.users.file",
        None,
        type=ConfigType.STRING,
        form=_FILE,
        doc="A file of users and passwords, one user=password on a line, that only its owner may read. These users can log "
        "in by every mechanism, and before any metadata is known: brokers need it. Kafka has sasl.jaas.config with the "
        "passwords among the settings.",
    )
    inter_broker_username: str | None = setting(
        "ottla.sasl.inter.broker.username",
        None,
        type=ConfigType.STRING,
        form=_USER,
        doc="The user as whom brokers log in to each other, one of ottla.sasl.users.file. With an authorizer, this user "
        "belongs in super.users.",
    )
    max_receive_size: int = setting(
        "sasl.server.max.receive.size",
        512 << 10,
        at_least=1,
        doc="The largest request accepted from a client that has not logged in.",
    )
    max_reauth_ms: int = setting(
        "connections.max.reauth.ms",
        0,
        type=ConfigType.LONG,
        at_least=0,
        doc="How long a login counts: a client that has not logged in again by then, on the same connection, is disconnected "
        "at its next request; 0 is without end. A removed user or a changed password takes effect at the next login.",
    )
    failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        at_least=0,
        doc="How long the answer to a failed login, and the end of its connection, are held back: guessing takes longer.",
    )
    login_timeout_ms: int = setting(
        "ottla.sasl.login.timeout.ms",
        10_000,
        at_least=1,
        doc="A connection whose client has not logged in after this long is closed. Kafka waits for connections.max.idle.ms.",
    )
    max_failed_logins: int = setting(
        "ottla.sasl.max.failed.logins.per.minute",
        1000,
        at_least=0,
        doc="How many logins from one address may fail in a minute; after that, logins from there are refused without a "
        "look at the password until the minute is over. 0 is no limit, as in Kafka.",
    )
    max_unauthenticated_connections: int = setting(
        "ottla.sasl.max.unauthenticated.connections",
        4096,
        at_least=1,
        at_most=INT_MAX,
        doc="How many connections may be open whose clients have not logged in; beyond that, new connections are closed at "
        "once. Kafka has no such limit.",
    )
    max_unauthenticated_connections_per_ip: int = setting(
        "ottla.sasl.max.unauthenticated.connections.per.ip",
        1024,
        at_least=1,
        at_most=INT_MAX,
        doc="How many of these connections one client address may have. Kafka has no such limit.",
    )

    def refuse_unusable(self, *, is_between_brokers: bool) -> None:
        """Raise ConfigError if nobody could log in on a listener with SASL, or brokers could not to each other."""
        if not self.enabled_mechanisms:
            raise ConfigError(
                "sasl.enabled.mechanisms is empty: nobody could log in on a listener with SASL."
            )
        if not is_between_brokers:
            return
        if self.inter_broker_mechanism not in self.enabled_mechanisms:
            raise ConfigError(
                f"sasl.mechanism.inter.broker.protocol is {self.inter_broker_mechanism}, which is not in "
                "sasl.enabled.mechanisms: brokers could not log in to each other."
            )
        if self.users_file is None or self.inter_broker_username is None:
            raise ConfigError(
                "Brokers log in to each other on the listener that they share: set ottla.sasl.users.file, and "
                "ottla.sasl.inter.broker.username to one of the users in it."
            )


def refuse_jaas(name: str) -> None:
    """Raise ConfigError for a setting of Kafka's that has passwords in it."""
    if name.endswith(JAAS):
        raise ConfigError(
            f"{name} is not read: passwords do not belong among the settings. Put user=password lines into a file that "
            "only its owner may read, and name the file in ottla.sasl.users.file."
        )
