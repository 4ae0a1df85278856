"""SCRAM credentials in the metadata: AlterUserScramCredentials, DescribeUserScramCredentials."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.test_snapshot import loaded

from ottla.controller.scram import describe_user_scram_credentials
from ottla.errors import ErrorCode
from ottla.protocol.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from ottla.security.sasl import scram
from ottla.security.sasl.scram import ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"0123456789abcdef"


def upsertion(
    name: str, mechanism: ScramMechanism = SHA_256, password: str = "secret", iterations: int = 4096
) -> ScramCredentialUpsertion:
    salted = scram.salted_password(mechanism, password, SALT, min(iterations, 4096))
    return ScramCredentialUpsertion(name, mechanism, iterations, SALT, salted)


def alter(cluster: Cluster, *changes: Any) -> dict[str, int]:
    response = cluster.commit(
        AlterUserScramCredentialsRequest(
            [each for each in changes if isinstance(each, ScramCredentialDeletion)],
            [each for each in changes if isinstance(each, ScramCredentialUpsertion)],
        )
    )
    return {result.user: result.error_code for result in response.results}


def describe(cluster: Cluster, *names: str) -> dict[str, tuple[int, list[CredentialInfo]]]:
    request = DescribeUserScramCredentialsRequest([UserName(name) for name in names])
    response = describe_user_scram_credentials(cluster.image, request)
    return {each.user: (each.error_code, each.credential_infos) for each in response.results}


def test_a_user_has_credentials_by_mechanism() -> None:
    cluster = Cluster(brokers=1)
    assert alter(cluster, upsertion("alice"), upsertion("alice", SHA_512), upsertion("bob")) == {
        "alice": ErrorCode.NONE,
        "bob": ErrorCode.NONE,
    }
    both = [CredentialInfo(SHA_256, 4096), CredentialInfo(SHA_512, 4096)]
    assert describe(cluster) == {"alice": (0, both), "bob": (0, both[:1])}
    for mechanism in ScramMechanism:
        assert scram.has_password(mechanism, cluster.image.scram_users["alice"][mechanism], "secret")


def test_the_keys_in_the_log_are_not_what_the_client_sent() -> None:
    cluster = Cluster(brokers=1)
    sent = upsertion("alice")
    alter(cluster, sent)
    kept = cluster.image.scram_users["alice"][SHA_256]
    assert bytes(sent.salted_password) not in (kept.stored_key, kept.server_key)
    assert "secret" not in repr(cluster.log)
    assert repr(kept.stored_key)[2:-1] not in repr(cluster.log)


def test_a_new_password_replaces_the_old_one() -> None:
    cluster = Cluster(brokers=1)
    alter(cluster, upsertion("alice"))
    alter(cluster, upsertion("alice", password="other"))
    credential = cluster.image.scram_users["alice"][SHA_256]
    assert scram.has_password(SHA_256, credential, "other")


def test_a_user_without_credentials_is_gone() -> None:
    cluster = Cluster(brokers=1)
    alter(cluster, upsertion("alice"), upsertion("alice", SHA_512))
    assert alter(cluster, ScramCredentialDeletion("alice", SHA_256)) == {"alice": ErrorCode.NONE}
    assert set(cluster.image.scram_users["alice"]) == {SHA_512}
    alter(cluster, ScramCredentialDeletion("alice", SHA_512))
    assert cluster.image.scram_users == {}
    assert describe(cluster, "alice") == {"alice": (ErrorCode.RESOURCE_NOT_FOUND, [])}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("alice", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("alice", iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (
            [ScramCredentialUpsertion("alice", SHA_512, 4096, SALT, b"short")],
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ),
        (
            [ScramCredentialUpsertion("alice", SHA_256, 4096, b"", b"x" * 32)],
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ),
        ([ScramCredentialUpsertion("alice", 3, 4096, SALT, b"x" * 32)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([ScramCredentialDeletion("alice", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([ScramCredentialDeletion("alice", SHA_256)], ErrorCode.RESOURCE_NOT_FOUND),
        ([upsertion("alice"), upsertion("alice")], ErrorCode.DUPLICATE_RESOURCE),
        ([upsertion("alice"), ScramCredentialDeletion("alice", SHA_256)], ErrorCode.DUPLICATE_RESOURCE),
        ([upsertion("alice"), ScramCredentialDeletion("alice", SHA_512)], ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_a_user_with_one_wrong_change_is_not_changed_at_all(changes: list[Any], error: ErrorCode) -> None:
    cluster = Cluster(brokers=1)
    assert alter(cluster, *changes, upsertion("bob")) == {changes[0].name: error, "bob": ErrorCode.NONE}
    assert set(cluster.image.scram_users) == {"bob"}


def test_a_user_named_twice_is_not_described() -> None:
    cluster = Cluster(brokers=1)
    alter(cluster, upsertion("alice"))
    assert describe(cluster, "alice", "alice") == {"alice": (ErrorCode.DUPLICATE_RESOURCE, [])}


def test_a_snapshot_has_the_credentials() -> None:
    cluster = Cluster(brokers=1)
    alter(cluster, upsertion("alice"), upsertion("alice", SHA_512), upsertion("bob"))
    assert loaded(cluster.image) == cluster.image


def test_an_image_shares_the_users_if_none_changed() -> None:
    cluster = Cluster(brokers=1)
    alter(cluster, upsertion("alice"))
    users = cluster.image.scram_users
    cluster.fence(1)
    assert cluster.image.scram_users is users
