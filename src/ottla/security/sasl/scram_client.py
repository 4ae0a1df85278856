"""The client's side of SCRAM.

The client ends with the server's proof: a server that does not have the credential is not trusted with
anything. A server that asks for few iterations would make the proof cheap to break; one that asks for many
would keep the client busy: both are refused.
"""

import hmac
from base64 import b64encode
from typing import Final

from ottla.security.sasl import scram, scram_text
from ottla.security.sasl.exchange import AuthenticationError
from ottla.security.sasl.scram import ScramMechanism

# Kafka's servers never ask for more than 16384; others may, up to half a second's work.
_MOST_ITERATIONS: Final = 1_000_000
_HEADER: Final = "n,,"


class ScramClient:
    """One login. `nonce` is random text without commas, of the caller's. `extensions` are sent along."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, extensions: str = ""
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={scram_text.escaped(user)},r={nonce}{extensions}"
        self._server_proof: bytes | None = None
        self._is_proven = False

    def first(self) -> bytes:
        return (_HEADER + self._bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._server_proof is None:
            return self._prove(challenge)
        if not self._is_proven:
            if not hmac.compare_digest(scram_text.read_server_final(challenge), self._server_proof):
                raise AuthenticationError("the server does not know the user's credential")
            self._is_proven = True
            return None
        raise AuthenticationError("the server goes on after the end of the exchange")

    def _prove(self, challenge: bytes) -> bytes:
        asked = scram_text.read_server_first(challenge)
        if not asked.nonce.startswith(self._nonce) or len(asked.nonce) == len(self._nonce):
            raise AuthenticationError("the server's nonce does not begin with the client's")
        if not scram.LEAST_ITERATIONS <= asked.iterations <= _MOST_ITERATIONS:
            raise AuthenticationError(f"the server asks for {asked.iterations} iterations")
        without_proof = scram_text.write_client_final(_HEADER, asked.nonce)
        auth_message = b",".join((self._bare.encode(), challenge, without_proof.encode()))
        mechanism = self._mechanism
        salted = scram.salted_password(mechanism, self._password, asked.salt, asked.iterations)
        proof = scram.client_proof(mechanism, salted, auth_message)
        key = scram.server_key(mechanism, salted)
        self._server_proof = scram.server_proof(mechanism, key, auth_message)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()
