"""Users of the settings and of the metadata log."""

from __future__ import annotations

import pytest

from ottla.security.sasl import scram
from ottla.security.sasl.credentials import Credentials, ScramUsers
from ottla.security.sasl.scram import ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"salt" * 4

IN_LOG: ScramUsers = {
    "alice": {SHA_256: scram.new_credential(SHA_256, "a-secret", SALT)},
    "bob": {SHA_512: scram.new_credential(SHA_512, "b-secret", SALT)},
    "broker": {SHA_256: scram.new_credential(SHA_256, "another", SALT)},
}


def credentials() -> Credentials:
    return Credentials({"broker": "between-brokers"}, lambda: IN_LOG, b"random")


@pytest.mark.parametrize(
    ("user", "password", "is_right"),
    [
        ("alice", "a-secret", True),
        ("bob", "b-secret", True),
        ("broker", "between-brokers", True),
        ("broker", "another", False),  # the settings come first
        ("alice", "b-secret", False),
        ("nobody", "a-secret", False),
    ],
)
def test_plain_finds_users_of_both_kinds(user: str, password: str, is_right: bool) -> None:
    assert credentials().has_password(user, password) is is_right


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_of_the_settings_can_log_in_with_scram(mechanism: ScramMechanism) -> None:
    known = credentials()
    credential = known.credential(mechanism, "broker")
    assert scram.has_password(mechanism, credential, "between-brokers")
    assert known.credential(mechanism, "broker") is credential


def test_an_unknown_user_gets_the_same_salt_each_time() -> None:
    one, other = credentials().credential(SHA_512, "nobody"), credentials().credential(SHA_512, "nobody")
    assert one.salt == other.salt
    assert one.salt != credentials().credential(SHA_512, "somebody").salt
    assert not scram.has_password(SHA_512, one, "")


def test_a_user_without_a_credential_for_a_mechanism_is_refused_by_it() -> None:
    assert not scram.has_password(SHA_512, credentials().credential(SHA_512, "alice"), "a-secret")


def test_known_users_are_those_of_both() -> None:
    assert [credentials().knows(user) for user in ("alice", "broker", "nobody")] == [True, True, False]
