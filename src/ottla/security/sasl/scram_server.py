"""The server's side of SCRAM.

An unknown user gets a challenge like any other, with a salt that is the same each time, and is refused after
the proof: nobody learns from the exchange which users exist.
"""

from collections.abc import Callable

from ottla.security.sasl import scram, scram_text
from ottla.security.sasl.exchange import AuthenticationError, Login, Step
from ottla.security.sasl.scram import ScramCredential, ScramMechanism
from ottla.security.sasl.scram_text import TOKEN_EXTENSION, ClientFirst, ServerFirst

# The credential of a user. Unknown users have one that fits no password.
FindCredential = Callable[[str], ScramCredential]
# The same for a delegation token by its id, and who logs in with it.
FindToken = Callable[[str], tuple[ScramCredential, Login]]


class ScramServer:
    """One login. `nonce` is random text without commas, of the caller's."""

    def __init__(
        self, mechanism: ScramMechanism, find: FindCredential, find_token: FindToken, nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._nonce = nonce
        self._asked: tuple[ClientFirst, ServerFirst, ScramCredential, Login] | None = None
        self._is_over = False

    def respond(self, token: bytes) -> Step:
        if self._is_over:
            raise AuthenticationError("a SCRAM client that goes on after the end of the exchange")
        if self._asked is None:
            return self._challenge(scram_text.read_client_first(token))
        self._is_over = True
        return self._verify(token, *self._asked)

    def _challenge(self, first: ClientFirst) -> Step:
        if first.extensions.get(TOKEN_EXTENSION, "").lower() == "true":
            credential, login = self._find_token(first.user)
        else:
            credential, login = self._find(first.user), Login(first.user)
        challenge = ServerFirst(first.nonce + self._nonce, credential.salt, credential.iterations)
        self._asked = first, challenge, credential, login
        return Step(str(challenge).encode())

    def _verify(
        self,
        token: bytes,
        first: ClientFirst,
        challenge: ServerFirst,
        credential: ScramCredential,
        login: Login,
    ) -> Step:
        final = scram_text.read_client_final(token)
        if final.nonce != challenge.nonce:
            raise AuthenticationError("a final SCRAM message with another nonce")
        if final.header != first.header:
            raise AuthenticationError("a final SCRAM message with another header")
        auth_message = f"{first.bare},{challenge},{final.without_proof}".encode()
        if not scram.is_client_proof(self._mechanism, credential, auth_message, final.proof):
            raise AuthenticationError(f"user {first.user!r} is unknown or has another password")
        proof = scram.server_proof(self._mechanism, credential.server_key, auth_message)
        return Step(scram_text.write_server_final(proof), login)
