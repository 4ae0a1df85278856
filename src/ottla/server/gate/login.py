"""Logins with SASL on one broker: who may, how often they may fail, and how far the login of each session is.

A login is a handshake, which names a mechanism, and then tokens until the mechanism's machine is satisfied
(`ottla.security.sasl`). A client that has logged in may do so again on the same connection: by the same
mechanism, as the same user (KIP-368).

Rules
- Every failure has the same answer: which users exist is nobody's business. The reason stands in the log, one
  line in an interval however many logins fail, without a secret.
- The answer to a failure is held back for a moment, and then the end of the connection, which costs no thread
  and does not hold up the loop. Nor does the one slow step: a password is hashed in a thread.
- While the users of the metadata log are not known, a user who is not in the settings waits.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

from ottla.config import SaslConfig
from ottla.errors import ErrorCode
from ottla.runtime.clock import monotonic_ms
from ottla.security.sasl.credentials import Credentials, UsersNotLoadedError
from ottla.security.sasl.exchange import AuthenticationError, ServerExchange, Step, UnknownKeyError
from ottla.security.sasl.exchange import Login as ProvenLogin
from ottla.security.sasl.failed_logins import FailedLogins
from ottla.server.answers.send_queue import Part
from ottla.server.gate.signing_keys import SigningKeys

logger = logging.getLogger(__name__)

# A storm of failures is one line a second, which says how many there were.
_LOG_INTERVAL_MS: Final = 1_000
# The mechanism whose passwords the server hashes; SCRAM's are hashed by the client.
_HASHES_HERE: Final = "PLAIN"
# Names of users stand in reasons, and clients choose them.
_MOST_REASON_CHARACTERS: Final = 200


class LoginRefusedError(Exception):
    """The connection ends, `linger_s` after `answers`, and nothing more is read from it. The reason has been logged.

    Some clients do not see an answer that comes together with the end.
    """

    def __init__(self, answers: Sequence[Part], linger_s: float = 0.0) -> None:
        super().__init__("the login was refused")
        self.answers = list(answers)
        self.linger_s = linger_s


class Reply(NamedTuple):
    """The answer to a token. With a `user` the login has succeeded, and counts for `lifetime_ms`; 0 is without
    end.
    """

    token: bytes
    user: str | None = None
    lifetime_ms: int = 0
    is_by_token: bool = False


class Logins:
    """What the logins of all sessions share. `wall_ms` is the time of day, `new_nonce` draws text nobody can
    foresee.
    """

    def __init__(
        self,
        config: SaslConfig,
        credentials: Credentials,
        wall_ms: Callable[[], int],
        new_nonce: Callable[[], str],
        signing_keys: SigningKeys | None = None,
    ) -> None:
        self.config = config
        self._signing_keys = signing_keys
        self.failed = FailedLogins(config.max_failed_logins)
        self._credentials = credentials
        self._wall_ms = wall_ms
        self._new_nonce = new_nonce
        self._are_users_loaded = asyncio.Event()
        self._strangers: Counter[str] = Counter()
        self.failed_count = 0
        self._quiet_until_ms = 0
        self._unlogged = 0
        self.failures = 0  # since the start

    def start(self) -> None:
        """Read the keys of tokens, where tokens are accepted."""
        if self._signing_keys is not None:
            self._signing_keys.start()

    def stop(self) -> None:
        """Read no more keys."""
        if self._signing_keys is not None:
            self._signing_keys.stop()

    def users_are_loaded(self) -> None:
        """The users of the metadata log are known from now on."""
        self._are_users_loaded.set()

    def refusal(self, host: str) -> str | None:
        """Why one more client that has not logged in would be too many; None if it is not."""
        total, from_there = self._strangers.total(), self._strangers[host]
        if total >= self.config.max_unauthenticated_connections:
            return (
                f"{total} clients have not logged in, the limit is ottla.sasl.max.unauthenticated.connections"
            )
        if from_there >= self.config.max_unauthenticated_connections_per_ip:
            return (
                f"{from_there} clients from there have not logged in, the limit is "
                "ottla.sasl.max.unauthenticated.connections.per.ip"
            )
        return None

    def begin(self, host: str, listener: str) -> "Login":
        """The login of a new session."""
        self._strangers[host] += 1
        return Login(self, host, listener)

    def ended(self, host: str) -> None:
        """A client has logged in, or is gone."""
        self._strangers[host] -= 1
        if not self._strangers[host]:
            del self._strangers[host]

    def exchange(self, mechanism: str) -> ServerExchange:
        """A new exchange of an enabled mechanism."""
        # Imported here: most brokers have no listener with SASL.
        from ottla.security.sasl.mechanisms import server_exchange

        return server_exchange(mechanism, self._credentials, self._check_token, self._new_nonce())

    def _check_token(self, token: str) -> ProvenLogin:
        assert self._signing_keys is not None, "the mechanism is not enabled without keys"
        return self._signing_keys.check(token)

    async def answer(self, exchange: ServerExchange, token: bytes, host: str, *, is_slow: bool) -> Step:
        """The answer of an exchange to a token. Raises AuthenticationError."""
        if self.failed.are_too_many(host, monotonic_ms()):
            raise AuthenticationError("too many logins from this address failed in the last minute")
        while True:
            try:
                if not is_slow:
                    return exchange.respond(token)
                return await asyncio.get_running_loop().run_in_executor(None, exchange.respond, token)
            except UsersNotLoadedError:
                await self._are_users_loaded.wait()
            except UnknownKeyError:
                assert self._signing_keys is not None
                await self._signing_keys.read_again()

    def lifetime_ms(self, login: ProvenLogin) -> int:
        """How long a login counts; 0 is without end."""
        most_ms = self.config.max_reauth_ms
        if login.expires_ms is None:
            return most_ms
        # A credential that expires within the millisecond counts for one, since 0 would be without end.
        left_ms = max(1, login.expires_ms - self._wall_ms())
        return min(left_ms, most_ms) if most_ms else left_ms

    def failed_from(self, host: str, listener: str, reason: str) -> None:
        """Count a failed login, and log why if there was no such line lately."""
        now_ms = monotonic_ms()
        self.failed_count += 1
        self.failed.count(host, now_ms)
        self.failures += 1
        if now_ms < self._quiet_until_ms:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more since the last such line)" if self._unlogged else ""
        shown = reason[:_MOST_REASON_CHARACTERS]
        logger.warning("refusing a login from %s on %s: %s%s", host, listener, shown, more)
        self._quiet_until_ms, self._unlogged = now_ms + _LOG_INTERVAL_MS, 0


class Login:
    """The login of one session, and its repetitions."""

    __slots__ = (
        "_begun",
        "_exchange",
        "_host",
        "_is_counted",
        "_is_refused",
        "_listener",
        "_logins",
        "_mechanism",
        "_user",
        "takes_raw_tokens",
    )

    def __init__(self, logins: Logins, host: str, listener: str) -> None:
        self._logins = logins
        self._host = host
        self._listener = listener
        self._begun = ""
        self._exchange: ServerExchange | None = None
        self._mechanism = ""
        self._user: str | None = None
        self._is_counted = True
        self._is_refused = False
        # After a handshake of version 0, tokens come without a request around them.
        self.takes_raw_tokens = False

    @property
    def config(self) -> SaslConfig:
        """The settings of logins."""
        return self._logins.config

    @property
    def _delay_s(self) -> float:
        return self.config.failed_authentication_delay_ms / 1000

    @property
    def is_done(self) -> bool:
        """Whether the client has logged in once."""
        return self._user is not None

    @property
    def expects_token(self) -> bool:
        """Whether there was a handshake, and the exchange goes on."""
        return self._exchange is not None

    def choose(self, mechanism: str, *, raw: bool) -> ErrorCode:
        """Begin an exchange by a mechanism that the client names."""
        if self._exchange is not None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.config.enabled_mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._begun, self._exchange = mechanism, self._logins.exchange(mechanism)
        self.takes_raw_tokens = raw
        return ErrorCode.NONE

    async def respond(self, token: bytes) -> Reply:
        """Take the client's next token. Raises AuthenticationError."""
        exchange = self._exchange
        if exchange is None:
            raise AuthenticationError("a token without a handshake before it")
        if self._user is not None and self._begun != self._mechanism:
            raise AuthenticationError(f"user {self._user!r} logs in again by another mechanism")
        is_slow = self._begun == _HASHES_HERE
        step = await self._logins.answer(exchange, token, self._host, is_slow=is_slow)
        if step.refusal is not None:
            self.failed(step.refusal)
            self._is_refused = True
            await asyncio.sleep(self._delay_s)
        if step.login is None:
            return Reply(step.token)
        if self._user is not None and self._user != step.login.user:
            raise AuthenticationError(f"user {self._user!r} logs in again as another user")
        self._user, self._mechanism, self._exchange = step.login.user, self._begun, None
        self.takes_raw_tokens = False
        self.close()
        lifetime_ms = self._logins.lifetime_ms(step.login)
        return Reply(step.token, step.login.user, lifetime_ms, step.login.is_token)

    async def refuse(self, reason: str, answers: Sequence[Part] = ()) -> NoReturn:
        """Have the connection end after `answers`, later. Raises LoginRefusedError."""
        self.failed(reason)
        await asyncio.sleep(self._delay_s)
        raise LoginRefusedError(answers, self._delay_s if answers else 0.0)

    async def expire(self) -> NoReturn:
        """Have the connection end: the login does not count any more. Raises LoginRefusedError."""
        logger.info("closing a connection from %s: the login of %r has expired", self._host, self._user)
        raise LoginRefusedError(())

    def failed(self, reason: str) -> None:
        """Count a failure, and log it if there was none lately; the end of a refused exchange was counted."""
        if not self._is_refused:
            self._logins.failed_from(self._host, self._listener, reason)

    def close(self) -> None:
        """The client is no stranger any more, or its connection is gone."""
        if self._is_counted:
            self._is_counted = False
            self._logins.ended(self._host)
