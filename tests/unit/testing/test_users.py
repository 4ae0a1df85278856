"""The users of a secured broker in a test."""

import pytest

import ottla.testing
from ottla.config import parse_properties
from ottla.testing.users import OWN_USER, Users

ODD = {"a=b:c": " lead\\ing", "# no comment": "line\nbreak", "ü": "!x\ty"}


def test_any_name_and_password_survive_the_file() -> None:
    users = Users(ODD)
    path = str(users.settings({})["ottla.sasl.users.file"])
    with open(path, encoding="utf-8") as file:
        read = parse_properties(file.read())
    assert {name: read[name] for name in ODD} == ODD
    assert set(read) == {*ODD, OWN_USER}


def test_the_brokers_own_user_may_do_everything_beside_those_of_the_test() -> None:
    users = Users({"alice": "secret"})
    assert users.settings({"super.users": "User:alice"})["super.users"] == f"User:alice;User:{OWN_USER}"
    assert users.settings({})["super.users"] == f"User:{OWN_USER}"
    assert users.security("alice", "PLAIN").password == "secret"


def test_without_users_the_broker_is_open() -> None:
    assert Users(None).settings({}) == {}
    assert (Users(None).protocol, Users({}).protocol) == ("PLAINTEXT", "PLAINTEXT")


def test_wrong_users_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="there is no user 'bob'"):
        Users({"alice": "secret"}).security("bob", "PLAIN")
    with pytest.raises(ValueError, match="the broker's own"):
        ottla.testing.broker(users={OWN_USER: "secret"})
    with pytest.raises(TypeError, match="must be text"):
        ottla.testing.broker(users={"alice": 5})  # type: ignore[dict-item]


def test_with_tls_clients_trust_the_authority_of_the_broker() -> None:
    users = Users({"alice": "secret"}, tls=True)
    assert users.protocol == "SASL_SSL"
    security = users.security("alice", "PLAIN")
    settings = users.settings({})
    assert (security.protocol, security.ca_file) == ("SASL_SSL", settings["ssl.truststore.location"])
    assert settings["ottla.sasl.inter.broker.username"] == OWN_USER
    nobody = Users(None, tls=True)
    assert (nobody.protocol, nobody.security(None, "PLAIN").protocol) == ("SSL", "SSL")
    with pytest.raises(ValueError, match="there is no user None"):
        users.security(None, "PLAIN")
    with pytest.raises(TypeError, match="tls must be True or False"):
        ottla.testing.broker(tls="yes")  # type: ignore[arg-type]
