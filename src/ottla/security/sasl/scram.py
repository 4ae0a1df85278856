"""SCRAM's formulas (RFC 5802, RFC 7677), and the credential that a server keeps instead of a password.

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)
    server key      = HMAC(salted password, "Server Key")
    client proof    = client key XOR HMAC(stored key, auth message)
    server proof    = HMAC(server key, auth message)

As in Kafka, user names and passwords are UTF-8 as they are, without SASLprep.
"""

import hmac
from dataclasses import dataclass
from enum import IntEnum
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import Final

# As in Kafka: fewer iterations make guessing cheap, more make logging in expensive for the server.
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384

_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


class ScramMechanism(IntEnum):
    """The mechanisms by Kafka's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in a handshake: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of the hash function in `hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def hash_bytes(self) -> int:
        """The size of all keys."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64


SCRAM_MECHANISMS: Final = {each.sasl_name: each for each in ScramMechanism}


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """What a server keeps of a password. Its text shows no key: it must not stand in any log."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The expensive step: some milliseconds."""
    return pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a password that was salted with this salt, so often."""
    stored_key = _hashed(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored_key, server_key(mechanism, salted), iterations)


def new_credential(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = LEAST_ITERATIONS
) -> ScramCredential:
    """The credential for a password."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def has_password(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Whether a credential was made from this password."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    stored_key = _hashed(mechanism, client_key(mechanism, salted))
    return hmac.compare_digest(stored_key, credential.stored_key)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, _CLIENT_KEY, mechanism.hash_name)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, _SERVER_KEY, mechanism.hash_name)


def client_proof(mechanism: ScramMechanism, salted: bytes, auth_message: bytes) -> bytes:
    """The client's proof that it knows the password."""
    key = client_key(mechanism, salted)
    signature = hmac.digest(_hashed(mechanism, key), auth_message, mechanism.hash_name)
    return _xor(key, signature)


def is_client_proof(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes, proof: bytes
) -> bool:
    """Whether a proof shows that its sender knows the password of a credential."""
    if len(proof) != mechanism.hash_bytes:
        return False
    signature = hmac.digest(credential.stored_key, auth_message, mechanism.hash_name)
    return hmac.compare_digest(_hashed(mechanism, _xor(proof, signature)), credential.stored_key)


def server_proof(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    """The server's proof that it has the credential: the client does not talk to a stranger."""
    return hmac.digest(key, auth_message, mechanism.hash_name)


def _hashed(mechanism: ScramMechanism, data: bytes) -> bytes:
    return new_hash(mechanism.hash_name, data).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
