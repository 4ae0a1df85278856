"""PLAIN: what is in the token, and what is refused."""

from __future__ import annotations

import pytest

from ottla.security.sasl.exchange import AuthenticationError, Login, Step
from ottla.security.sasl.plain import PlainClient, PlainServer


def is_known(user: str, password: str) -> bool:
    return (user, password) == ("alice", "opensesame")


def test_a_client_logs_in_with_one_token() -> None:
    client = PlainClient("alice", "opensesame")
    assert client.first() == b"\0alice\0opensesame"
    assert PlainServer(is_known).respond(client.first()) == Step(b"", Login("alice"))
    assert client.respond(b"") is None


def test_a_user_may_name_itself_as_the_one_it_acts_for() -> None:
    assert PlainServer(is_known).respond(b"alice\0alice\0opensesame").login == Login("alice")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0",
        b"\0\0opensesame",
        b"\0alice\0opensesame\0",
        b"admin\0alice\0opensesame",
        b"\0alice\0Opensesame",
        b"\0bob\0opensesame",
        b"\0alice\0\xff",
    ],
)
def test_everything_else_is_refused_without_a_word_about_the_password(token: bytes) -> None:
    with pytest.raises(AuthenticationError) as refused:
        PlainServer(is_known).respond(token)
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("a\0b", "x"), ("a", "x\0y")])
def test_a_client_refuses_what_the_token_cannot_hold(user: str, password: str) -> None:
    with pytest.raises(AuthenticationError):
        PlainClient(user, password)


def test_a_client_expects_no_challenge() -> None:
    with pytest.raises(AuthenticationError):
        PlainClient("alice", "opensesame").respond(b"more")
