"""SCRAM: the vectors of its RFC, both sides against each other, and exchanges that were tampered with."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.sasl import scram
from ottla.security.sasl.exchange import AuthenticationError, Login
from ottla.security.sasl.mechanisms import password_exchange
from ottla.security.sasl.scram import ScramCredential, ScramMechanism
from ottla.security.sasl.scram_client import ScramClient
from ottla.security.sasl.scram_server import ScramServer

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512

# RFC 7677, section 3.
RFC_SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_MESSAGES = [
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
]

CREDENTIALS = {mechanism: scram.new_credential(mechanism, "pencil", RFC_SALT) for mechanism in ScramMechanism}


def server(
    mechanism: ScramMechanism = SHA_256, nonce: str = RFC_SERVER_NONCE, found: ScramCredential | None = None
) -> ScramServer:
    credential = found or CREDENTIALS[mechanism]
    owner = Login("owner", 5_000, is_token=True)
    return ScramServer(mechanism, lambda user: credential, lambda token_id: (credential, owner), nonce)


def client(mechanism: ScramMechanism = SHA_256, user: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient(mechanism, user, password, RFC_CLIENT_NONCE)


def exchange(asking: ScramClient, answering: ScramServer) -> list[bytes]:
    """All tokens of a whole exchange, which both sides accept."""
    first = asking.first()
    challenge = answering.respond(first)
    final = asking.respond(challenge.token)
    assert final is not None
    end = answering.respond(final)
    assert challenge.login is None
    assert end.login is not None
    assert asking.respond(end.token) is None
    return [first, challenge.token, final, end.token]


def test_the_exchange_of_the_rfc_is_reproduced_byte_by_byte() -> None:
    assert exchange(client(), server()) == RFC_MESSAGES


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "ünïcode", "x" * 500])
def test_both_sides_agree_on_who_logged_in(mechanism: ScramMechanism, user: str) -> None:
    asking, answering = client(mechanism, user), server(mechanism)
    final = asking.respond(answering.respond(asking.first()).token)
    assert final is not None
    assert answering.respond(final).login == Login(user)


def test_sha_512_has_keys_of_64_bytes() -> None:
    credential = CREDENTIALS[SHA_512]
    assert (len(credential.stored_key), len(credential.server_key)) == (64, 64)
    assert scram.has_password(SHA_512, credential, "pencil")
    assert not scram.has_password(SHA_512, credential, "Pencil")


def test_a_wrong_password_is_refused_after_the_proof() -> None:
    asking, answering = client(password="pen"), server()
    final = asking.respond(answering.respond(asking.first()).token)
    assert final is not None
    with pytest.raises(AuthenticationError, match="'user' is unknown or has another password"):
        answering.respond(final)


def test_a_client_does_not_trust_a_server_without_the_credential() -> None:
    """A server that accepts everybody cannot show that it has the user's credential."""
    asking = client()
    asking.respond(RFC_MESSAGES[1])
    with pytest.raises(AuthenticationError, match="does not know the user's credential"):
        asking.respond(b"v=" + RFC_MESSAGES[3][2:].replace(b"6rri", b"7rri"))


def test_an_exchange_is_not_used_twice() -> None:
    asking, answering = client(), server()
    exchange(asking, answering)
    with pytest.raises(AuthenticationError):
        answering.respond(RFC_MESSAGES[2])
    with pytest.raises(AuthenticationError):
        asking.respond(RFC_MESSAGES[3])


def test_a_proof_is_of_no_use_in_another_exchange() -> None:
    """The messages of the RFC, replayed to a server that draws another nonce."""
    answering = server(nonce="another")
    answering.respond(RFC_MESSAGES[0])
    with pytest.raises(AuthenticationError, match="another nonce"):
        answering.respond(RFC_MESSAGES[2])


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=somebody,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",  # not our nonce
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",  # nothing of the server's
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095",  # too cheap
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000",  # too expensive
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=?,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO1",
        b"\xff",
        b"",
    ],
)
def test_a_client_refuses_a_challenge_that_weakens_it(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError):
        client().respond(challenge)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff\xfe",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a\x7f",
        b"n,a=admin,n=user,r=abc",  # acting for somebody else
        b"p=tls-unique,,n=user,r=abc",  # channel binding
        b"m,,n=user,r=abc",
    ],
)
def test_a_server_refuses_a_malformed_first_message(first: bytes) -> None:
    with pytest.raises(AuthenticationError):
        server().respond(first)


@given(place=st.integers(min_value=0), byte=st.integers(min_value=1, max_value=255))
def test_no_tampered_final_message_is_accepted(place: int, byte: int) -> None:
    """One byte of the client's final message differs: refused, unless it is no change of its meaning."""
    answering = server()
    answering.respond(RFC_MESSAGES[0])
    final = bytearray(RFC_MESSAGES[2])
    final[place % len(final)] ^= byte
    try:
        step = answering.respond(bytes(final))
    except AuthenticationError:
        return
    # The last base64 character of 32 bytes has two bits that mean nothing.
    assert step.login == Login("user")
    assert b64decode(final.partition(b"p=")[2]) == b64decode(RFC_MESSAGES[2].partition(b"p=")[2])


@given(token=st.binary(max_size=200), is_final=st.booleans())
def test_a_server_answers_any_bytes_with_a_step_or_a_refusal(token: bytes, is_final: bool) -> None:
    answering = server()
    if is_final:
        answering.respond(RFC_MESSAGES[0])
    with suppress(AuthenticationError):
        assert answering.respond(token).login is None


def test_a_credential_does_not_show_its_keys() -> None:
    assert repr(CREDENTIALS[SHA_256]) == "ScramCredential(iterations=4096)"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_delegation_token_logs_its_owner_in(mechanism: ScramMechanism) -> None:
    asking = password_exchange(mechanism.sasl_name, "token-id", "pencil", "nonce", is_token=True)
    answering = server(mechanism)
    assert asking.first() == b"n,,n=token-id,r=nonce,tokenauth=true"
    final = asking.respond(answering.respond(asking.first()).token)
    assert final is not None
    assert answering.respond(final).login == Login("owner", 5_000, is_token=True)


@pytest.mark.parametrize(
    "extension", ["tokenauth=false", "tokenauth=", "tokenauth", "x=true", "TOKENAUTH=true"]
)
def test_any_other_extension_is_a_user_as_ever(extension: str) -> None:
    asking = ScramClient(SHA_256, "user", "pencil", "nonce", extensions=f",{extension}")
    answering = server()
    final = asking.respond(answering.respond(asking.first()).token)
    assert final is not None
    assert answering.respond(final).login == Login("user")
