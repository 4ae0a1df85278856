"""Brokers with TLS in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla.blocking
import ottla.testing
from ottla.testing import EmbeddedBroker
from ottla.testing.certificates import Certificates


def test_certificates_are_made_once_and_go_with_their_owner() -> None:
    certificates = Certificates()
    directory = certificates.authority.parent
    assert Path(str(certificates.settings()["ottla.ssl.key.file"])).parent == directory
    assert directory.is_dir()
    del certificates
    assert not directory.exists()


def test_a_broker_with_tls_needs_no_users() -> None:
    with ottla.testing.broker(tls=True) as broker:
        with ottla.blocking.Producer(broker.bootstrap, security=broker.security()) as producer:
            producer.send("orders", "one coffee")
        assert [record.value for record in broker.records("orders")] == [b"one coffee"]


def test_a_cluster_with_tls_and_users_replicates() -> None:
    with ottla.testing.cluster(3, users={"alice": "secret"}, tls=True) as cluster:
        cluster.create_topic("orders")
        with ottla.blocking.Producer(
            cluster.bootstrap, security=cluster.security("alice"), acks="all"
        ) as producer:
            producer.send("orders", "one coffee")
        assert len(cluster.records("orders")) == 1


def test_the_fixture_has_users_without_rights(ottla_secured_broker: EmbeddedBroker) -> None:
    bob = ottla_secured_broker.security("bob")
    assert bob.protocol == "SASL_SSL"
    ottla_secured_broker.create_topic("orders")
    with ottla.blocking.Admin(ottla_secured_broker.bootstrap, security=bob) as admin:
        assert admin.list_topics() == []
    with pytest.raises(ConnectionError), ottla.blocking.Admin(ottla_secured_broker.bootstrap):
        pass
