"""Users who logged in, in a cluster that checks rights: each has its own rights and quotas on every broker, and brokers
trust each other (OPS-4, OPS-5).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import ottla.testing
from ottla import Acl, AclFilter, DeliveryError, NewTopic, Operation, Pattern, QuotaEntity, succeeded
from ottla.blocking import Admin, Producer
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.waiting import wait_until
from ottla.testing import EmbeddedCluster

USERS = {"admin": "Admin-Secret-1", "alice": "Alice-Secret-2", "bob": "Bob-Secret-3"}
SETTINGS = {
    "authorizer.class.name": "acl",
    "super.users": "User:admin",
    "quota.window.num": "1",
}
PARTITIONS = range(3)
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with ottla.testing.cluster(3, users=USERS, settings=SETTINGS) as running:
        with administrator(running) as admin:
            succeeded(admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)]))
        yield running


def administrator(cluster: EmbeddedCluster) -> Admin:
    return Admin(cluster.bootstrap, security=cluster.security("admin"))


def may_write(cluster: EmbeddedCluster, user: str) -> bool:
    """Whether a user may write to the topic, which has a leader on each broker."""
    security = cluster.security(user)
    with Producer(cluster.bootstrap, security=security, enable_idempotence=False) as producer:
        outcomes = [outcome_of(producer, partition) for partition in PARTITIONS]
    assert all(REFUSED.name in each for each in outcomes if each), outcomes
    # A change reaches every broker, one after the other.
    return not any(outcomes)


def outcome_of(producer: Producer, partition: int) -> str:
    """What a producer is told; nothing if it may write."""
    try:
        producer.send("orders", b"coffee", partition=partition)
    except (DeliveryError, KafkaError) as error:
        return str(error)
    return ""


def test_rights_of_a_user_come_and_go_on_every_broker(cluster: EmbeddedCluster) -> None:
    assert not may_write(cluster, "alice")
    with administrator(cluster) as admin:
        writes = Acl(Pattern.topic("orders"), "User:alice", "*", Operation.WRITE)
        succeeded(admin.create_acls([writes]))
        wait_until(lambda: may_write(cluster, "alice"), "alice may write")
        assert not may_write(cluster, "bob")
        assert succeeded(admin.delete_acls([AclFilter(principal="User:alice")])) == {
            AclFilter(principal="User:alice"): [writes]
        }
        wait_until(lambda: not may_write(cluster, "alice"), "alice may not write any more")
    with Admin(cluster.bootstrap, security=cluster.security("alice")) as alice:
        with pytest.raises(KafkaError) as refused:
            alice.describe_acls()
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_quota_of_a_user_slows_that_user_only(cluster: EmbeddedCluster) -> None:
    with administrator(cluster) as admin:
        rights = [
            Acl(Pattern.topic("orders"), f"User:{user}", "*", Operation.WRITE) for user in ("alice", "bob")
        ]
        succeeded(admin.create_acls(rights))
        succeeded(admin.alter_quotas({QuotaEntity(user="bob"): {"producer_byte_rate": 100_000}}))
        wait_until(lambda: may_write(cluster, "alice") and may_write(cluster, "bob"), "both may write")

        def is_slowed() -> bool:
            """Twice one second's worth, then one more: the broker lets the client wait for a second."""
            with Producer(cluster.bootstrap, security=cluster.security("bob")) as producer:
                began = time.monotonic()
                for _ in range(3):
                    producer.send("orders", bytes(100_000), partition=0)
                return time.monotonic() - began >= 0.9

        wait_until(is_slowed, "the quota is in force")
        succeeded(admin.alter_quotas({QuotaEntity(user="bob"): {"producer_byte_rate": None}}))
        wait_until(lambda: admin.describe_quotas() == {}, "every broker knows that there is no quota")
