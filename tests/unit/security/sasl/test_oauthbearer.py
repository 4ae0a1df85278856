"""OAUTHBEARER: client and server against each other, and messages that are refused (OPS-5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.sasl.exchange import AuthenticationError, Login, Step, UnknownKeyError
from ottla.security.sasl.oauthbearer import OauthBearerClient, OauthBearerServer

TOKEN = "e30.e30.c2ln"
EXPIRES_MS = 5_000


def check(token: str) -> Login:
    if token != TOKEN:
        raise AuthenticationError("a token with a wrong signature")
    return Login("alice", EXPIRES_MS)


def test_a_client_logs_in_with_one_message() -> None:
    client, server = OauthBearerClient(TOKEN), OauthBearerServer(check)
    assert client.first() == b"n,,\x01auth=Bearer e30.e30.c2ln\x01\x01"
    step = server.respond(client.first())
    assert step == Step(b"", Login("alice", EXPIRES_MS))
    assert client.respond(step.token) is None


def test_extensions_travel_with_the_token() -> None:
    client = OauthBearerClient(TOKEN, {"traceId": "a b=c", "Zone": "~"})
    assert OauthBearerServer(check).respond(client.first()).login == Login("alice", EXPIRES_MS)


def test_a_refused_client_answers_once_more_before_the_exchange_fails() -> None:
    client, server = OauthBearerClient("e30.e30.x"), OauthBearerServer(check)
    step = server.respond(client.first())
    assert step == Step(b'{"status":"invalid_token"}', refusal="a token with a wrong signature")
    answer = client.respond(step.token)
    assert answer == b"\x01"
    with pytest.raises(AuthenticationError, match="wrong signature"):
        server.respond(answer)
    with pytest.raises(AuthenticationError, match="refused the token"):
        client.respond(b"")


def test_a_right_token_after_a_refusal_does_not_help() -> None:
    server = OauthBearerServer(check)
    server.respond(OauthBearerClient("e30.e30.x").first())
    with pytest.raises(AuthenticationError):
        server.respond(OauthBearerClient(TOKEN).first())


def test_an_unknown_key_is_for_the_shell_to_look_for_and_the_message_can_come_again() -> None:
    known: list[str] = []

    def check_later(token: str) -> Login:
        if not known:
            raise UnknownKeyError
        return check(token)

    server, first = OauthBearerServer(check_later), OauthBearerClient(TOKEN).first()
    with pytest.raises(UnknownKeyError):
        server.respond(first)
    known.append("key")
    assert server.respond(first).login == Login("alice", EXPIRES_MS)


@pytest.mark.parametrize("header", ["n,a=alice,", "n,a=bob,"])
def test_a_user_may_name_itself_and_nobody_else(header: str) -> None:
    step = OauthBearerServer(check).respond(f"{header}\x01auth=bearer  {TOKEN}\x01\x01".encode())
    assert (step.login is not None) == (header == "n,a=alice,")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01",
        b"n,,\x01auth=Basic e30.e30.c2ln\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln more\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2l/\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01auth=Bearer e30.e30.c2ln\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x011=x\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01a_b=x\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01=x\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01name\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01name=\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01name=\x07\x01\x01",
        "n,,\x01auth=Bearer e30.e30.c2ln\x01name=é\x01\x01".encode(),
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01" + b"a=1\x01" * 100 + b"\x01",
        b"n,,\x01auth=Bearer e30.e30.c2ln\x01"
        + b"".join(b"%s=1\x01" % (b"a" * n) for n in range(1, 90))
        + b"\x01",
        b"y,,\x01auth=Bearer e30.e30.c2ln\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer e30.e30.c2ln\x01\x01",
        b"n,a=,\x01auth=Bearer e30.e30.c2ln\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_every_other_message_is_refused_without_a_word_of_the_token(message: bytes) -> None:
    with pytest.raises(AuthenticationError) as refused:
        OauthBearerServer(check).respond(message)
    assert "e30" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "é", "a\n"])
def test_a_client_refuses_what_is_no_token(token: str) -> None:
    with pytest.raises(AuthenticationError):
        OauthBearerClient(token)


@given(st.one_of(st.binary(max_size=200), st.text("n,a=\x01 uthBer.\x00é", max_size=60).map(str.encode)))
def test_no_bytes_are_anything_but_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        OauthBearerServer(check).respond(message)
