"""Who may log in with a password: users of the broker's settings, and users of the metadata log.

The users of the settings come first, and need no metadata: brokers log in with them before there is any. A
user is the same for PLAIN and for SCRAM: from a password in the settings a SCRAM credential is made when it
is first needed, and a password that PLAIN brings is compared with the SCRAM credential in the log. A user
that does not exist has a credential that no password fits, so that both take the same time.

Before a broker has its metadata, it cannot tell users of the log from users that do not exist:
`UsersNotLoadedError` asks for the same question again, later.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from ottla.security.sasl import scram
from ottla.security.sasl.delegation_token import UsableTokens
from ottla.security.sasl.exchange import Login
from ottla.security.sasl.scram import ScramCredential, ScramMechanism

# The credentials of tokens that are remembered: making one takes some milliseconds.
_MOST_TOKENS: Final = 10_000
# As long as the salts of our own command line.
_SALT_BYTES: Final = 24

# By user, and for each by mechanism.
ScramUsers = Mapping[str, Mapping[int, ScramCredential]]


class UsersNotLoadedError(Exception):
    """The users of the metadata log are not known yet, and the user is none of the settings."""


class Credentials:
    """All users of one broker. `secret` is random; `in_log` are the users of the metadata log now, None while
    they are not known.
    """

    def __init__(
        self,
        passwords: Mapping[str, str],
        in_log: Callable[[], ScramUsers | None],
        secret: bytes,
        tokens: UsableTokens | None = None,
    ) -> None:
        self._passwords = dict(passwords)
        self._in_log = in_log
        self._secret = secret
        self._tokens = tokens
        self._made_of_tokens: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self._made: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def knows(self, user: str) -> bool:
        """Whether there is such a user."""
        return user in self._passwords or user in self._users_in_log()

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The credential of a user; for a user without one, a credential that no password fits."""
        password = self._passwords.get(user)
        if password is not None:
            return self._of_settings(mechanism, user, password)
        found = self._users_in_log().get(user, {}).get(mechanism)
        return self._nobodys(mechanism, user) if found is None else found

    def of_token(self, mechanism: ScramMechanism, token_id: str) -> tuple[ScramCredential, Login]:
        """The credential of a delegation token, and the login of its owner; for a token that cannot be used, a
        credential that no password fits.
        """
        if self._tokens is not None and not self._tokens.are_known:
            raise UsersNotLoadedError
        found = None if self._tokens is None else self._tokens.find(token_id)
        if found is None:
            return self._nobodys(mechanism, token_id), Login(token_id)
        token, password = found
        expires_ms = min(token.expires_ms, token.max_ms)
        login = Login(token.owner.name, expires_ms, is_token=True)
        return self._of_token_password(mechanism, token_id, password), login

    def has_password(self, user: str, password: str) -> bool:
        """Whether a user has this password: what PLAIN asks."""
        in_log = {} if user in self._passwords else self._users_in_log()
        has_512_only = set(in_log.get(user, ())) == {ScramMechanism.SCRAM_SHA_512}
        mechanism = ScramMechanism.SCRAM_SHA_512 if has_512_only else ScramMechanism.SCRAM_SHA_256
        return scram.has_password(mechanism, self.credential(mechanism, user), password)

    def _users_in_log(self) -> ScramUsers:
        users = self._in_log()
        if users is None:
            raise UsersNotLoadedError
        return users

    def _of_settings(self, mechanism: ScramMechanism, user: str, password: str) -> ScramCredential:
        key = user, mechanism
        if key not in self._made:
            self._made[key] = scram.new_credential(mechanism, password, self._salt(mechanism, user))
        return self._made[key]

    def _of_token_password(self, mechanism: ScramMechanism, token_id: str, password: str) -> ScramCredential:
        key, made = (token_id, mechanism), self._made_of_tokens
        if key not in made:
            if len(made) >= _MOST_TOKENS:
                del made[next(iter(made))]
            made[key] = scram.new_credential(mechanism, password, self._salt(mechanism, token_id))
        return made[key]

    def _nobodys(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        # The hash of no client key: to find one would be to invert the hash function.
        stored_key = self._derived(f"stored {mechanism.name} {user}")[: mechanism.hash_bytes]
        return ScramCredential(
            self._salt(mechanism, user), stored_key, b"", iterations=scram.LEAST_ITERATIONS
        )

    def _salt(self, mechanism: ScramMechanism, user: str) -> bytes:
        return self._derived(f"salt {mechanism.name} {user}")[:_SALT_BYTES]

    def _derived(self, what: str) -> bytes:
        return hmac.digest(self._secret, what.encode(), "sha512")
