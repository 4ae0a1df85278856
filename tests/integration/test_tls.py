"""Listeners with TLS beside others: client certificates, large answers, hostile peers, new certificates
(WIRE-5).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.integration.in_process import broker_thread
from tests.integration.peer import Peer, batch, create_topic, fetch, fetch_request, produce, values_of
from tests.integration.tls_place import (
    LISTENERS,
    METADATA,
    Place,
    TlsPeer,
    place_with_tls,
    tls_port,
    tls_settings,
)
from tests.tls_authority import Authority, Issued

import ottla
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.localcluster.ports import HOST
from ottla.localcluster.waiting import wait_until
from ottla.model import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.runtime.tls_context import client_context
from ottla.security.settings import Security
from ottla.wire.failures import CannotConnectError


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_with_tls(tmp_path_factory.mktemp("tls")) as made:
        yield made


def test_each_listener_tells_its_clients_its_own_address(place: Place) -> None:
    with TlsPeer(place.port, place.security) as secured, Peer(place.broker.port) as plain:
        assert [each.port for each in secured.ask(*METADATA).brokers] == [place.port]
        assert [each.port for each in plain.ask(*METADATA).brokers] == [place.broker.port]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken_and_older_ones_are_not(
    place: Place, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=str(place.authority.ca_file))
    context.minimum_version = context.maximum_version = version
    with Peer(place.port) as peer, context.wrap_socket(peer.socket, server_hostname=HOST) as secured:
        peer.socket = secured
        assert peer.ask(*METADATA).brokers
        assert secured.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2"}.get(version, "TLSv1.3")


# ---- who it is


def test_rights_belong_to_the_principal_of_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {
        **tls_settings(authority, ssl_client_auth="requested"),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/U,DEFAULT",
        "authorizer.class.name": "acl",
        "super.users": "User:ALICE",
    }
    with broker_thread(tmp_path / "data", settings) as broker:
        address = f"{HOST}:{tls_port(broker)}"

        async def create(issued: Issued | None) -> object:
            async with ottla.Admin(address, security=authority.security(issued)) as admin:
                return (await admin.create_topics([ottla.NewTopic("t")]))["t"]

        assert not isinstance(asyncio.run(create(authority.issue("alice"))), ottla.KafkaError)
        for other in (authority.issue("bob"), None):
            refused = asyncio.run(create(other))
            assert isinstance(refused, ottla.KafkaError)
            assert refused.code.name.endswith("AUTHORIZATION_FAILED")


def test_a_certificate_of_another_authority_is_not_accepted(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    eve = Authority(tmp_path / "eves", "Eve's Authority").issue("alice")
    context = client_context(
        Security(
            protocol="SSL",
            ca_file=place.authority.ca_file,
            certificate_file=eve.certificate,
            key_file=eve.key,
        )
    )
    with (
        Peer(place.port) as peer,
        context.wrap_socket(peer.socket, server_hostname=HOST) as secured,
        pytest.raises(OSError),
    ):
        secured.recv(1)
    wait_until(lambda: "its certificate is not trusted" in caplog.text, "the log says why")


def test_where_certificates_are_required_a_client_without_one_hears_of_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = tls_settings(authority, ssl_client_auth="required")
    with broker_thread(tmp_path / "data", settings) as broker:
        port = tls_port(broker)

        async def ask(security: Security) -> list[str]:
            async with ottla.Admin(f"{HOST}:{port}", security=security) as admin:
                return [each.name for each in await admin.list_topics()]

        assert asyncio.run(ask(authority.security(authority.issue("alice")))) == []
        with pytest.raises(CannotConnectError, match="client certificate"):
            asyncio.run(ask(authority.security()))


def test_secrets_among_the_settings_are_shown_to_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    locked = authority.issue("locked", password="sesame")
    settings = {"listeners": LISTENERS, "ssl.key.password": "sesame", **locked.broker_settings()}
    with broker_thread(tmp_path / "data", settings) as broker, Peer(broker.port) as peer:
        resource = DescribeConfigsResource(resource_type=4, resource_name="1")
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        (answer,) = peer.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
        shown = {each.name: each for each in answer.configs}
        hidden = shown["ssl.key.password"]
        assert (hidden.value, hidden.is_sensitive) == (None, True)
        assert shown["ottla.ssl.key.file"].value == str(locked.key)
        assert "sesame" not in repr(answer)


# ---- errors of clients


def connect_error(address: str, security: Security | None) -> str:
    async def connect() -> None:
        async with ottla.Admin(address, security=security) as admin:
            await admin.list_topics()

    with pytest.raises(CannotConnectError) as failed:
        asyncio.run(connect())
    return str(failed.value)


def blocking_error(port: int, security: Security) -> str:
    address = Address(HOST, port)
    with pytest.raises(ConnectionError) as failed:
        BlockingConnection(
            address, client_id="c", timeout_ms=5_000, connect_timeout_ms=5_000, security=security
        )
    return str(failed.value)


def test_an_authority_that_is_not_trusted_is_named_as_what_to_give(place: Place, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").security()
    assert "give the authority's certificate as ca_file" in connect_error(place.address, other)
    assert "give the authority's certificate as ca_file" in blocking_error(place.port, other)


def test_a_certificate_for_another_host_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    elsewhere = authority.issue("elsewhere", hosts=["broker.example.org"])
    settings = {"listeners": LISTENERS, **elsewhere.broker_settings()}
    with broker_thread(tmp_path / "data", settings) as broker:
        port = tls_port(broker)
        assert "certificate is for another host" in connect_error(f"{HOST}:{port}", authority.security())
        assert "certificate is for another host" in blocking_error(port, authority.security())
        unchecked = Security(protocol="SSL", ca_file=authority.ca_file, check_hostname=False)
        with TlsPeer(port, unchecked) as peer:
            assert peer.ask(*METADATA).brokers


def test_tls_to_a_port_without_and_the_other_way_round_say_what_to_do(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    plain = f"{HOST}:{place.broker.port}"
    assert "it may not speak TLS" in connect_error(plain, place.security)
    assert "it may not speak TLS" in blocking_error(place.broker.port, place.security)
    assert "it looks like TLS, and this listener is without" in caplog.text
    assert "it answers with TLS: use protocol SSL" in connect_error(place.address, None)
    wait_until(lambda: "looks like a Kafka client without TLS" in caplog.text, "the log says what came")


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"ca_file": "/nonexistent/ca.pem"}, "The file /nonexistent/ca.pem cannot be read: no such file"),
        ({"ca_pem": "nothing"}, "The truststore in the settings cannot be used: it holds no certificate"),
    ],
)
def test_files_that_cannot_be_used_are_named(place: Place, broken: dict[str, Any], sentence: str) -> None:
    security = Security(protocol="SSL", **broken)
    assert sentence in connect_error(place.address, security)
    assert sentence in blocking_error(place.port, security)


# ---- large answers


def test_a_large_answer_arrives_to_its_last_byte_while_others_are_served(place: Place, topic: str) -> None:
    pieces = [bytes((number,)) * 900_000 for number in range(30)]
    with TlsPeer(place.port, place.security) as peer, TlsPeer(place.port, place.security) as other:
        create_topic(peer, topic)
        for piece in pieces:
            assert produce(peer, topic, batch(piece)).error_code == 0
        stopping, rounds = threading.Event(), []

        def keep_asking() -> None:
            while not stopping.is_set():
                rounds.append(len(other.ask(*METADATA).brokers))

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            found = fetch(peer, topic)
            wait_until(lambda: len(rounds) > 10, "the other client is answered")
        finally:
            stopping.set()
            asking.join()
    assert values_of(found) == pieces


def test_a_reader_that_stops_reads_on_later_and_misses_nothing(place: Place, topic: str) -> None:
    pieces = [bytes((number,)) * 700_000 for number in range(10)]
    options = {"receive_buffer_bytes": 64 * 1024}
    with TlsPeer(place.port, place.security, **options) as late, Peer(place.broker.port) as other:
        create_topic(late, topic)
        for piece in pieces:
            assert produce(late, topic, batch(piece)).error_code == 0
        for _ in range(4):
            late.send(ApiKey.FETCH, 12, fetch_request((topic, 0, 0)))
        for _ in range(5):
            assert other.ask(*METADATA).brokers, "it keeps nobody waiting"
        for _ in range(4):
            found = late.receive(ApiKey.FETCH, 12)[1].responses[0].partitions[0]
            assert values_of(found) == pieces


def test_many_requests_in_one_record_and_one_request_in_many_are_all_answered(
    place: Place, topic: str
) -> None:
    with TlsPeer(place.port, place.security) as peer:
        create_topic(peer, topic)
        frames = b"".join(peer.frame(*METADATA) for _ in range(600))
        first = peer.correlation_id - 599
        peer.socket.sendall(frames)
        answered = [peer.receive(ApiKey.METADATA, 9)[0] for _ in range(600)]
        assert answered == list(range(first, first + 600))
        for byte in peer.frame(*METADATA):
            peer.socket.sendall(bytes((byte,)))
        assert peer.receive(ApiKey.METADATA, 9)[0] == first + 600


# ---- hostile peers


def open_connections(place: Place) -> int:
    return place.broker.call(lambda: place.broker.broker.listeners.connection_count)


def is_closed(sock: socket.socket) -> bool:
    """Whether the broker closes it; what the broker says before is not of interest."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ihhi", 30, 18, 3, 1) + bytes(26),
        bytes(range(256)),
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
    ],
    ids=["http", "kafka", "garbage", "broken hello", "record too large"],
)
def test_bytes_that_are_not_tls_close_their_connection_only(place: Place, data: bytes) -> None:
    with TlsPeer(place.port, place.security) as other:
        with Peer(place.port) as peer:
            try:
                peer.socket.sendall(data)
            except ConnectionError:
                return
            assert is_closed(peer.socket)
        assert other.ask(*METADATA).brokers


def test_half_open_connections_are_closed_after_the_deadline_and_fill_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        place_with_tls(tmp_path, {"ottla.ssl.handshake.timeout.ms": "400"}) as place,
        ExitStack() as stack,
        Peer(place.broker.port) as other,
    ):
        silent = [stack.enter_context(Peer(place.port)) for _ in range(100)]
        halfway = [stack.enter_context(Peer(place.port)) for _ in range(20)]
        for peer in halfway:
            peer.socket.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        assert other.ask(*METADATA).brokers, "they keep nobody waiting"
        for peer in (*silent, *halfway):
            assert is_closed(peer.socket)
        wait_until(lambda: open_connections(place) == 1, "they are not counted any more")
    lines = [line for line in caplog.messages if "ottla.ssl.handshake.timeout.ms" in line]
    assert 1 <= len(lines) <= 3


def test_a_probe_of_the_port_is_no_news(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    before = open_connections(place)
    for _ in range(10):
        with Peer(place.port):
            pass
    wait_until(lambda: open_connections(place) <= before, "the probes are gone")
    assert "TLS handshake" not in caplog.text


def test_a_spoilt_record_ends_the_connection_with_a_reason(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with Peer(place.port) as peer:
        raw = peer.socket
        copied = socket.socket(fileno=socket.dup(raw.fileno()))
        secured = client_context(place.security).wrap_socket(raw, server_hostname=HOST)
        copied.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(OSError):
            secured.recv(4096)
        copied.close()
        secured.close()
    wait_until(lambda: "reading failed: TLS failed" in caplog.text, "the log says why")


def test_a_connection_that_is_cut_in_the_middle_of_a_record_is_forgotten(place: Place) -> None:
    before = open_connections(place)
    with Peer(place.port) as peer:
        raw = peer.socket
        copied = socket.socket(fileno=socket.dup(raw.fileno()))
        secured = client_context(place.security).wrap_socket(raw, server_hostname=HOST)
        copied.sendall(b"\x17\x03\x03\x10\x00" + bytes(100))
        copied.shutdown(socket.SHUT_RDWR)
        copied.close()
        secured.close()
    wait_until(lambda: open_connections(place) <= before, "it is not counted any more")


# ---- certificates that change


def serial_of(port: int, authority: Authority) -> str:
    with TlsPeer(port, authority.security()) as peer:
        assert isinstance(peer.socket, ssl.SSLSocket)
        found = peer.socket.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def test_new_certificates_are_used_without_a_restart_and_unusable_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.server.net.tls_door._CHECK_INTERVAL_S", 0.02)
    authority = Authority(tmp_path)
    issued: Issued = authority.issue("broker")
    settings = {"listeners": LISTENERS, **issued.broker_settings()}
    with broker_thread(tmp_path / "data", settings) as broker:
        port = tls_port(broker)
        first = serial_of(port, authority)
        with TlsPeer(port, authority.security()) as before:
            authority.issue("broker")
            wait_until(lambda: serial_of(port, authority) != first, "the new certificate is in use")
            assert before.ask(*METADATA).brokers, "connections that are open stay"
        second = serial_of(port, authority)
        issued.key.write_text("spoilt")
        wait_until(lambda: "the new certificates are not used" in caplog.text, "the log says so")
        assert serial_of(port, authority) == second
        authority.issue("broker")
        wait_until(lambda: serial_of(port, authority) != second, "the third certificate is in use")
