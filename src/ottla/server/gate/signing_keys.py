"""The keys by which tokens of OAUTHBEARER are checked: read at the start, again from time to time, and when a token
names a key that is not known.

Rules
- Reading takes place in a thread, with limits on time and size: a slow identity provider holds up no client.
- Keys that could be read stay in use while they cannot be read again. The log says so, once when it begins and
  once when it is over.
- Tokens with keys that nobody knows cost the provider one request in `retry.backoff.max.ms`, however many come.
"""

import asyncio
import logging
from typing import Final

from ottla.config import ConfigError, OauthBearerConfig
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.runtime import Runtime
from ottla.security.sasl.exchange import AuthenticationError, Login, UnknownKeyError

logger = logging.getLogger(__name__)

# Key sets have some kilobytes.
_MOST_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 5.0


class SigningKeys:
    """Checks tokens. Raises ConfigError if the extra that does so is not installed."""

    def __init__(self, config: OauthBearerConfig, runtime: Runtime) -> None:
        _require_extra()
        from ottla.security.oauth.key_set import KeySet

        assert config.jwks_url is not None, "checked with the settings"
        self._config = config
        self._url = config.jwks_url
        self._wall_ms = runtime.clock.wall_ms
        self._threads = runtime.threads.pool(1, "ottla-jwks")
        self._keys = KeySet()
        self._failures = 0
        self._began_ms = 0
        self._is_wanted = asyncio.Event()
        self._was_read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the keys from now on."""
        self._task = asyncio.get_running_loop().create_task(self._keep_fresh())

    def stop(self) -> None:
        """Read no more. A request that is under way ends within its time."""
        if self._task is not None:
            self._task.cancel()
        self._threads.shutdown(wait=False)

    def check(self, token: str) -> Login:
        """Who a token is about. Raises AuthenticationError, and UnknownKeyError if it is worth asking again after
        `read_again`.
        """
        from ottla.security.oauth.signed_token import verified_claims
        from ottla.security.oauth.token_claims import login_of

        try:
            claims = verified_claims(token, self._keys)
        except UnknownKeyError:
            if self._may_read_again():
                raise
            raise AuthenticationError(
                "a token with a key that is not known"
                if len(self._keys)
                else "no keys could be read from sasl.oauthbearer.jwks.endpoint.url yet"
            ) from None
        return login_of(claims, self._config, self._wall_ms())

    async def read_again(self) -> None:
        """Have the keys read, and wait for it."""
        if self._was_read.is_set():
            self._was_read.clear()
            self._is_wanted.set()
        await self._was_read.wait()

    def _may_read_again(self) -> bool:
        is_due = monotonic_ms() - self._began_ms >= self._config.retry_backoff_max_ms
        return is_due or not self._was_read.is_set()

    async def _keep_fresh(self) -> None:
        while True:
            self._is_wanted.clear()
            self._was_read.clear()
            self._began_ms = monotonic_ms()
            await self._read()
            self._was_read.set()
            try:
                async with asyncio.timeout(self._pause_ms() / 1000):
                    await self._is_wanted.wait()
            except TimeoutError:
                continue

    def _pause_ms(self) -> int:
        config = self._config
        if not self._failures:
            return config.jwks_refresh_ms
        # Doubled for each failure; not more often than the largest pause needs.
        doubled = config.retry_backoff_ms << min(self._failures - 1, 30)
        return min(doubled, config.retry_backoff_max_ms)

    async def _read(self) -> None:
        from ottla.runtime.http_fetch import shown_url
        from ottla.security.oauth.key_set import read_key_set

        try:
            self._keys = read_key_set(
                await asyncio.get_running_loop().run_in_executor(self._threads, _content, self._url)
            )
        except (OSError, ValueError) as error:
            self._failed(shown_url(self._url), getattr(error, "strerror", None) or str(error))
            return
        if self._failures:
            logger.info("the keys for tokens could be read again from %s", shown_url(self._url))
        self._failures = 0

    def _failed(self, url: str, why: str) -> None:
        self._failures += 1
        if self._failures > 1:
            return
        then = "the old ones stay in use" if len(self._keys) else "no client can log in by OAUTHBEARER"
        logger.error("the keys for tokens cannot be read from %s, %s until they can: %s", url, then, why)


def _content(url: str) -> bytes:
    from ottla.runtime.http_fetch import content_of

    return content_of(url, most_bytes=_MOST_BYTES, timeout_s=_TIMEOUT_S)


def _require_extra() -> None:
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise ConfigError(
            "OAUTHBEARER in sasl.enabled.mechanisms needs a library that checks signatures of tokens: "
            "pip install 'ottla[oauth]'."
        ) from None
