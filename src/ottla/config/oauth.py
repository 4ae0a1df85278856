"""The settings of logins with tokens of an identity provider: OAUTHBEARER (KIP-255, KIP-768)."""

from typing import Final

from ottla.config.setting import ConfigError, ConfigType, Form, family, setting

_URL: Final = Form(r"(https?://[^\s/]|file:///)\S*", "an https, http or file URL")
_CLAIM: Final = Form(r"\S+", "the name of a claim")
_WORD: Final = Form(r"\S+", "text without spaces")


@family
class OauthBearerConfig:
    """Which tokens are accepted, and whose signatures."""

    jwks_url: str | None = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        type=ConfigType.STRING,
        form=_URL,
        doc="Where the keys are that tokens are signed with, as a JSON Web Key Set: the https URL of the identity provider, "
        "or file:///path. OAUTHBEARER needs it.",
    )
    jwks_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often the keys are read again. A token with an unknown key has them read at once, but not more often than "
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms.",
    )
    retry_backoff_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        type=ConfigType.LONG,
        at_least=1,
        doc="How long to wait after the keys could not be read; each further failure doubles it. The old keys stay in use.",
    )
    retry_backoff_max_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="The longest wait after the keys could not be read.",
    )
    expected_audience: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        (),
        form=_WORD,
        doc="A token must be for one of these audiences (its claim aud); empty accepts tokens for anybody.",
    )
    expected_issuer: str | None = setting(
        "sasl.oauthbearer.expected.issuer",
        None,
        type=ConfigType.STRING,
        form=_WORD,
        doc="A token must be of this issuer (its claim iss); without it, of any that signs with the keys.",
    )
    sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        form=_CLAIM,
        doc="The claim that names the user. The principal is User: and its value.",
    )
    scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        form=_CLAIM,
        doc="The claim with the scopes of a token: a text with spaces between the scopes, or a list.",
    )
    required_scopes: tuple[str, ...] = setting(
        "ottla.sasl.oauthbearer.required.scopes",
        (),
        form=_WORD,
        doc="A token must have all of these scopes. Kafka has no such setting for signed tokens.",
    )
    clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        at_least=0,
        doc="By how much the clocks of the broker and of the identity provider may differ.",
    )

    def refuse_unusable(self) -> None:
        """Raise ConfigError if no token could be accepted."""
        if self.jwks_url is None:
            raise ConfigError(
                "OAUTHBEARER is in sasl.enabled.mechanisms: set sasl.oauthbearer.jwks.endpoint.url to the URL of the "
                "keys that tokens are signed with."
            )
