"""The users of the settings, and as whom brokers log in to each other.

Brokers need each other before there is any metadata, so that the user they log in as stands in a file of every
broker, `ottla.sasl.users.file`, and not in the metadata log.
"""

from dataclasses import replace
from typing import Any

from ottla.config import BrokerConfig, ConfigError, SaslConfig, parse_properties
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime.secret_file import read_secret_file
from ottla.security.own_certificates import own_certificates
from ottla.security.settings import PLAINTEXT, Security


def read_users(config: SaslConfig) -> dict[str, str]:
    """The users of the settings and their passwords. KafkaError, without a secret, if the file cannot be used."""
    path = config.users_file
    if path is None:
        return {}
    try:
        users = parse_properties(read_secret_file(path))
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    except ConfigError:
        raise _unusable(path, "each line must be user=password") from None
    without = next((user for user, password in users.items() if not password), None)
    if without is not None:
        raise _unusable(path, f"the user {without!r} has no password in it")
    return users


def security_between_brokers(config: BrokerConfig) -> Security:
    """How this node reaches the others, by the listener that they share."""
    listener = config.node.advertised_listener
    open_security = own_certificates(config.tls) if listener.uses_tls else PLAINTEXT
    if not listener.uses_sasl or config.sasl.inter_broker_username is None:
        return open_security
    user = config.sasl.inter_broker_username
    password = read_users(config.sasl).get(user)
    if password is None:
        raise _unusable(
            str(config.sasl.users_file), f"ottla.sasl.inter.broker.username is {user!r}, who is not in it"
        )
    arguments: dict[str, Any] = {
        "protocol": listener.protocol,
        "sasl_mechanism": config.sasl.inter_broker_mechanism,
        "username": user,
        "password": password,
    }
    return replace(open_security, **arguments)


def _unusable(path: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"The users file {path} cannot be used: {why}.")
