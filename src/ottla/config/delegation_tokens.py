"""The settings of delegation tokens (KIP-48): logins that users hand on, for a time."""

from typing import Final

from ottla.config.setting import ConfigType, Form, family, setting

_DAY_MS: Final = 24 * 3_600_000
_SECRET: Final = Form(r"(?s).+", "a secret text")


@family
class DelegationTokenConfig:
    """Whether there are delegation tokens, and how long they live."""

    secret_key: str | None = setting(
        "delegation.token.secret.key",
        None,
        type=ConfigType.STRING,
        form=_SECRET,
        sensitive=True,
        doc="The secret that delegation tokens are made from, the same on every broker and controller. Without it there are no "
        "delegation tokens. It is best given in the environment, as OTTLA_DELEGATION_TOKEN_SECRET_KEY. With another secret, "
        "the tokens that were issued before are void.",
    )
    max_lifetime_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        7 * _DAY_MS,
        type=ConfigType.LONG,
        at_least=1,
        doc="How long a token can be used at most, however often it is renewed.",
    )
    expiry_time_ms: int = setting(
        "delegation.token.expiry.time.ms",
        _DAY_MS,
        type=ConfigType.LONG,
        at_least=1,
        doc="After how long a token expires unless it is renewed.",
    )
    expiry_check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often the controller removes tokens that have expired. They cannot be used before that, either.",
    )
