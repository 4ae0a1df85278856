"""Brokers that reach each other by TLS only, each with its own certificate: replication, failover, strangers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.peer import Peer
from tests.integration.tls_place import METADATA
from tests.tls_authority import Authority

import ottla
from ottla.localcluster.broker_process import running, start_broker
from ottla.security.settings import Security
from ottla.testing import cluster
from ottla.testing.embedded_cluster import EmbeddedCluster


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[EmbeddedCluster]:
    """Three brokers whose only listener demands certificates."""
    settings = {
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(authority.ca_file),
        **authority.issue("broker").broker_settings(),
    }
    with cluster(3, settings=settings) as started:
        yield started


async def produced(cluster: EmbeddedCluster, security: Security, topic: str, *values: bytes) -> None:
    async with ottla.Producer(cluster.bootstrap, security=security, acks="all") as producer:
        for value in values:
            await producer.send(topic, value)


def test_records_are_replicated_and_survive_a_leader(secured: EmbeddedCluster, authority: Authority) -> None:
    security = authority.security(authority.issue("client"))
    topic = secured.create_topic("replicated", replication_factor=3)
    asyncio.run(produced(secured, security, topic, b"before"))
    leader = secured.leader_of(topic)
    secured.kill(leader)
    asyncio.run(produced(secured, security, topic, b"after"))
    assert [record.value for record in secured.records(topic)] == [b"before", b"after"]
    secured.start(leader)
    secured.wait_in_sync(topic)


def test_a_stranger_is_let_in_by_no_broker(secured: EmbeddedCluster, authority: Authority) -> None:
    for broker in secured.brokers.values():
        with Peer(broker.port) as peer:
            peer.send(*METADATA)
            assert peer.socket.recv(2) == b"\x15\x03", "an alert of TLS, and no answer"
        with pytest.raises(ConnectionError, match="client certificate"):
            asyncio.run(connected(broker.bootstrap, authority.security()))


async def connected(bootstrap: str, security: Security) -> None:
    async with ottla.Admin(bootstrap, security=security):
        pass


def test_ottla_serve_and_the_command_lines_settings_have_tls(authority: Authority, tmp_path: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.truststore.location": str(authority.ca_file),
        **authority.issue("served").broker_settings(),
    }
    with running(start_broker(tmp_path / "data", settings)) as process:
        asyncio.run(connected(process.bootstrap, authority.security()))
