"""Whatever comes to listeners with SASL and TLS before a login: the broker serves others, grows by nothing claimed, and
its log stays short (WIRE-5, OPS-5).
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fuzz.fuzz_logins import Wire
from tests.fuzz.mutations import mutate
from tests.integration.login_steps import METADATA, USERS, authenticate, handshake, log_in
from tests.integration.peer import Peer, resident_bytes, took_s
from tests.tls_authority import Authority

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.ports import HOST, free_port
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.sasl.exchange import AuthenticationError
from ottla.security.sasl.mechanisms import password_exchange

pytestmark = pytest.mark.alone  # deadlines of a tenth of a second
MIB = 1 << 20
TIMEOUT_MS = 3_000
STRANGERS = 1_000
BROKER_RESOURCE = 4


class Secured:
    """A broker with logins, with and without TLS, and a client that is logged in."""

    def __init__(self, broker: BrokerProcess, tls_port: int, known: Peer) -> None:
        self.broker = broker
        self.port = broker.port
        self.tls_port = tls_port
        self.known = known

    def load(self, what: str) -> int:
        resource = DescribeConfigsResource(BROKER_RESOURCE, "1", [f"ottla.load.{what}"])
        (found,) = self.known.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest([resource])).results
        (entry,) = found.configs
        return int(entry.value)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("logins")
    authority = Authority(directory / "certificates")
    tls_port = free_port()
    settings = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:{free_port()},SASL_SSL://{HOST}:{tls_port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ottla.sasl.users.file": str(_users_file(directory)),
        "ottla.sasl.login.timeout.ms": str(TIMEOUT_MS),
        "ottla.ssl.handshake.timeout.ms": str(TIMEOUT_MS),
        "ottla.sasl.max.failed.logins.per.minute": "0",
        "ottla.sasl.max.unauthenticated.connections.per.ip": str(2 * STRANGERS),
        "connection.failed.authentication.delay.ms": "0",
        **authority.issue("broker").broker_settings(),
    }
    with (
        running(start_broker(directory / "data", settings)) as broker,
        Peer(broker.port) as known,
    ):
        log_in(known)
        yield Secured(broker, tls_port, known)


def _users_file(directory: Path) -> Path:
    path = directory / "users"
    path.touch(mode=0o600)
    path.write_text("".join(f"{user}={password}\n" for user, password in USERS.items()))
    return path


@pytest.fixture(autouse=True)
def _is_unharmed(secured: Secured) -> Iterator[None]:
    """After each test the broker serves, at its usual speed, lets users in, and has met no error of its own."""
    yield
    assert min(took_s(lambda: secured.known.ask(*METADATA)) for _ in range(5)) < 0.1
    with Peer(secured.port) as peer:
        log_in(peer)
    said = secured.broker.said()
    assert "Traceback" not in said
    assert "internal error" not in said
    for secret in USERS.values():
        assert secret not in said


def test_spoiled_exchanges_of_every_mechanism_are_refused_counted_and_few_lines(secured: Secured) -> None:
    rng, failures, lines = random.Random(7), secured.load("failed.logins"), len(_lines(secured))
    for number in range(300):
        mechanism = rng.choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
        client = password_exchange(mechanism, "alice", USERS["alice"], f"nonce{number}")
        wire = Wire(rng)
        with Peer(secured.port) as peer, contextlib.suppress(ConnectionError, EOFError, AuthenticationError):
            handshake(peer, mechanism)
            token: bytes | None = client.first()
            while token is not None:
                answer = authenticate(peer, wire.carried(token))
                if answer.error_code or not answer.auth_bytes:
                    assert answer.error_code == 0 or wire.is_changed
                    break
                token = client.respond(bytes(answer.auth_bytes))
    assert secured.load("failed.logins") > failures + 50
    assert len(_lines(secured)) - lines < 60, "one line a second and kind"


def _lines(secured: Secured) -> list[str]:
    return [line for line in secured.broker.said().splitlines() if "refus" in line or "closing" in line]


def test_frames_in_any_order_of_any_size_and_spoiled_end_their_connection_only(secured: Secured) -> None:
    rng = random.Random(11)
    with Peer(secured.port) as sample:
        frames = [
            sample.frame(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))
            for version in (0, 1)
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "none", "")
        ]
        frames += [
            sample.frame(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))
            for version in (0, 1, 2)
            for token in (b"", b"n,,n=alice,r=x", b"\0alice\0x", bytes(1000))
        ]
        frames += [sample.frame(*METADATA), struct.pack(">i", (512 << 10) + 1), struct.pack(">i", -1)]
    for _ in range(200):
        parts = []
        for _ in range(4):
            frame = rng.choice(frames)
            body = mutate(frame[4:], rng) if rng.random() < 0.5 else frame[4:]
            parts.append(struct.pack(">i", len(body)) + body if len(frame) > 4 else frame)
        _send_and_leave(secured.port, b"".join(parts))


def test_hellos_that_were_spoiled_end_their_handshake_only(secured: Secured) -> None:
    rng, hello = random.Random(13), _client_hello()
    refused = secured.load("refused.connections")
    for _ in range(200):
        _send_and_leave(secured.tls_port, mutate(hello, rng))
    assert secured.load("refused.connections") > refused + 50


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def _send_and_leave(port: int, data: bytes) -> None:
    with socket.create_connection((HOST, port), timeout=10) as sending, contextlib.suppress(ConnectionError):
        sending.sendall(data)
        sending.shutdown(socket.SHUT_WR)
        while sending.recv(1 << 16):
            pass


def test_a_thousand_half_open_connections_keep_nobody_waiting_and_are_closed(secured: Secured) -> None:
    memory, hello = resident_bytes(secured.broker.pid), _client_hello()
    with ExitStack() as stack:
        kinds = STRANGERS // 4
        silent = [stack.enter_context(Peer(secured.port)) for _ in range(kinds)]
        halfway = [stack.enter_context(Peer(secured.port)) for _ in range(kinds)]
        without_hello = [stack.enter_context(Peer(secured.tls_port)) for _ in range(kinds)]
        with_half_a_hello = [stack.enter_context(Peer(secured.tls_port)) for _ in range(kinds)]
        for peer in halfway:
            peer.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("SCRAM-SHA-256"))
        for peer in with_half_a_hello:
            peer.socket.sendall(hello[:-20])
        assert min(took_s(lambda: secured.known.ask(*METADATA)) for _ in range(5)) < 0.1
        with Peer(secured.port) as another:
            log_in(another)
        assert resident_bytes(secured.broker.pid) - memory < 160 * MIB
        for peer in (*silent, *halfway, *without_hello, *with_half_a_hello):
            _await_end(peer.socket)
    wait_until(lambda: resident_bytes(secured.broker.pid) - memory < 100 * MIB, "memory is given back")
    assert len(_lines(secured)) < 300


def _await_end(sock: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while sock.recv(1 << 16):
            pass
