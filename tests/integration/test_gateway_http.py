"""The gateway's HTTP core against callers that are slow, wrong or hostile: GTW-1."""

from __future__ import annotations

import json
import logging
import re
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.integration.gateway_place import (
    DEADLINE_S,
    GatewayPlace,
    gateway_place,
    grant_everything,
    read_to_end,
)
from tests.tls_authority import Authority

import ottla.testing
from ottla.cli.gateway import gateway as gateway_command
from ottla.cli.serve import serve as serve_command
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        started.create_topic("t")
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(
        broker.bootstrap, head_timeout_ms=300, body_timeout_ms=300, max_body_bytes=10_000
    ) as place:
        yield place


def status_of(answer: bytes) -> int:
    assert answer, "the connection was closed without an answer"
    return int(answer.split(b" ", 2)[1])


def message_of(answer: bytes) -> str:
    text: str = json.loads(answer.partition(b"\r\n\r\n")[2])["message"]
    return text


# ---- wrong requests


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /topics HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /topics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /topics HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400),
        (b"GET /topics HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", 431),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        (b"POST /topics/t HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /topics/t HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /topics/t HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET ftp://a/topics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /topics/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"BREW /topics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 405),
        (b"GET http://a/topics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
    ],
)
def test_bytes_that_are_no_good_request_get_a_clear_answer(
    gateway: GatewayPlace, sent: bytes, status: int
) -> None:
    answer = gateway.raw(sent)
    assert status_of(answer) == status
    if status >= 400:
        assert len(message_of(answer)) > 10
    assert gateway.call("GET", "/topics").status == 200


def test_a_method_that_is_not_served_is_told_which_are(gateway: GatewayPlace) -> None:
    reply = gateway.call("DELETE", "/topics")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, OPTIONS")


def test_a_body_that_is_too_large_is_refused(gateway: GatewayPlace) -> None:
    reply = gateway.call("POST", "/topics/t", b"x" * 2_000_000)
    assert reply.status == 413
    assert "10000 bytes" in reply.json["message"]
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    head = b"POST /topics/t HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status_of(gateway.raw(head + chunk * 20)) == 413


def test_a_compressed_body_is_refused(gateway: GatewayPlace) -> None:
    reply = gateway.call("POST", "/topics/t", b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert reply.status == 415


def test_a_caller_that_waits_for_a_go_gets_it(gateway: GatewayPlace) -> None:
    body = b'{"records": [{"value": 1}]}'
    with gateway.connect() as connection:
        connection.sendall(
            b"POST /topics/t HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert status_of(read_to_end(connection)) == 200


def test_requests_that_follow_each_other_are_answered_in_order(gateway: GatewayPlace) -> None:
    ask = b"GET /topics/%s/partitions HTTP/1.1\r\nHost: a\r\n%s\r\n"
    answers = gateway.raw(ask % (b"t", b"") + ask % (b"none", b"") + ask % (b"t", b"Connection: close\r\n"))
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"404", b"200"]


def test_a_body_that_nobody_asked_for_does_no_harm(gateway: GatewayPlace) -> None:
    ask = b"GET /brokers HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    answers = gateway.raw(ask + b"GET /brokers HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200"]


# ---- slow callers


def test_a_head_that_does_not_come_is_not_waited_for(gateway: GatewayPlace) -> None:
    with gateway.connect() as connection:
        connection.sendall(b"GET /topics HTTP/1.1\r\nX-Slow: ")
        answer = read_to_end(connection)
    assert status_of(answer) == 408
    assert "300 ms" in message_of(answer)


def test_a_body_that_does_not_come_is_not_waited_for(gateway: GatewayPlace) -> None:
    head = (
        b"POST /topics/t HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    )
    with gateway.connect() as connection:
        connection.sendall(head + b"{")
        assert status_of(read_to_end(connection)) == 408


def test_an_idle_connection_is_closed(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, idle_timeout_ms=100) as place, place.connect() as connection:
        assert read_to_end(connection) == b""


def test_a_caller_that_takes_no_answer_loses_its_connection(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("untaken", configs={"max.message.bytes": "20000000"})
    with gateway_place(broker.bootstrap, send_timeout_ms=200) as place:
        for _ in range(3):
            place.produce(topic, "x" * 6_000_000)
        path = f"/topics/{topic}/partitions/0/records?from=0&max_bytes=60000000"
        with place.connect() as connection:
            connection.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
            wait_until(lambda: place.gateway.connection_count == 0, "the connection is given up")


def test_connections_over_the_limit_are_turned_away(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, max_connections=1) as place, place.connect() as first:
        ask = b"GET /brokers HTTP/1.1\r\nHost: a\r\n%s\r\n"
        first.sendall(ask % b"")
        assert first.recv(65536).startswith(b"HTTP/1.1 200")
        answer = place.raw(ask % b"")
        assert (status_of(answer), "ottla.gateway.max.connections" in message_of(answer)) == (503, True)
        first.sendall(ask % b"Connection: close\r\n")
        assert status_of(read_to_end(first)) == 200


# ---- ids, log, origins


def test_every_answer_has_an_id_and_a_line_in_the_log(
    gateway: GatewayPlace, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "ottla.gateway.access"):
        assert (
            gateway.call("GET", "/brokers", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"]
            == "mine-1"
        )
        made = gateway.call("GET", "/brokers", headers={"X-Request-Id": 'no" id'}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{32}", made)
        wait_until(lambda: made in caplog.text, "the line is logged")
    assert re.search(r'127\.0\.0\.1 - "GET /brokers" 200 \d+ [\d.]+ms mine-1', caplog.text)


def test_pages_of_other_origins_may_call_if_they_are_named(
    broker: EmbeddedBroker, gateway: GatewayPlace
) -> None:
    shop = {"Origin": "https://shop.example"}
    assert "access-control-allow-origin" not in gateway.call("GET", "/brokers", headers=shop).headers
    with gateway_place(broker.bootstrap, allowed_origins=("https://shop.example",)) as place:
        answer = place.call("GET", "/brokers", headers=shop)
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        asked = place.call("OPTIONS", "/topics/t", headers={**shop, "Access-Control-Request-Method": "POST"})
        assert (asked.status, asked.headers["access-control-allow-methods"]) == (204, "GET, POST")
        assert "Content-Type" in asked.headers["access-control-allow-headers"]
        other = place.call("GET", "/brokers", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


# ---- who calls


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def test_callers_act_as_themselves() -> None:
    """The cluster's access control lists decide; the gateway holds no rights."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    users = {"alice": "secret-a", "bob": "secret-b", "root": "secret-r"}
    with ottla.testing.broker(settings=settings, users=users) as broker:
        topic = broker.create_topic("guarded")
        grant_everything(broker, "alice", topic)
        alice, bob = basic("alice", "secret-a"), basic("bob", "secret-b")
        with gateway_place(broker.bootstrap, requires_login=True, login_mechanism="SCRAM-SHA-256") as place:
            sent = {"records": [{"value": 1}]}
            assert (
                place.call("POST", f"/topics/{topic}", sent, headers=alice).json["offsets"][0]["offset"] == 0
            )
            assert place.call("POST", f"/topics/{topic}", sent, headers=bob).status in (403, 404)
            wrong = place.call("POST", f"/topics/{topic}", sent, headers=basic("alice", "guess"))
            assert wrong.error == (401, 40101)
            assert wrong.headers["www-authenticate"].startswith("Basic")
            assert place.call("GET", "/topics").error == (401, 40101)
            assert place.call("GET", "/topics", headers={"Authorization": "Basic ?"}).error == (401, 40101)
            assert place.call("GET", "/topics", headers={"Authorization": "Digest x"}).error == (401, 40101)
            created = place.call("POST", "/consumers/g", {"name": "i"}, headers=alice)
            assert created.status == 200
            # An instance acts with the rights of its maker: to others it does not exist.
            assert place.call("GET", "/consumers/g/instances/i/assignments", headers=bob).error == (
                404,
                40403,
            )
            assert place.call("DELETE", "/consumers/g/instances/i", headers=alice).status == 204


def test_nobody_acts_in_the_gateways_name_by_chance() -> None:
    """A gateway that logs in to its cluster itself lends its login to callers only if it is told to."""
    with ottla.testing.broker(users={"root": "secret-r"}) as broker:
        broker.create_topic("orders")
        with gateway_place(broker.bootstrap, broker.security("root")) as place:
            assert place.call("GET", "/topics").error == (401, 40101)
            assert place.call("GET", "/topics", headers=basic("root", "secret-r")).json == ["orders"]
        with gateway_place(broker.bootstrap, broker.security("root"), requires_login=False) as place:
            assert place.call("GET", "/topics").json == ["orders"]


def test_a_login_that_the_gateway_cannot_pass_on_is_refused(gateway: GatewayPlace) -> None:
    reply = gateway.call("GET", "/topics", headers=basic("alice", "secret"))
    assert reply.error == (401, 40101)
    assert "ottla.gateway.login.mechanism" in reply.json["message"]
    assert gateway.call("GET", "/topics", headers={"Authorization": "Bearer abc"}).error == (401, 40101)


def test_the_gateway_speaks_tls(broker: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("gateway")
    settings = issued.broker_settings()
    with gateway_place(
        broker.bootstrap,
        certificate_file=settings["ottla.ssl.certificate.file"],
        key_file=settings["ottla.ssl.key.file"],
    ) as place:
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        reply = place.call("GET", "/topics", context=context)
        assert reply.status == 200
        created = place.call("POST", "/consumers/g", {"name": "tls"}, context=context)
        assert created.json["base_uri"] == f"https://localhost:{place.port}/consumers/g/instances/tls"
        assert place.raw(b"GET /topics HTTP/1.1\r\nHost: a\r\n\r\n") == b""


# ---- the cluster


def test_a_cluster_that_is_gone_is_an_answer() -> None:
    with ottla.testing.broker() as other, gateway_place(other.bootstrap, cluster_timeout_ms=500) as place:
        assert place.call("GET", "/brokers").status == 200
        other.kill()
        reply = place.call("GET", "/topics/t/partitions")
        assert reply.error == (503, 50003)
        assert "cannot be reached" in reply.json["message"]


# ---- the process


def test_a_gateway_that_cannot_start_says_why(broker: EmbeddedBroker, gateway: GatewayPlace) -> None:
    refused = [
        (("--bootstrap", broker.bootstrap, "--listen", f"127.0.0.1:{gateway.port}"), "is in use"),
        (("--bootstrap", "127.0.0.1:1", "--listen", "127.0.0.1:0"), "cannot be reached"),
        (("--listen", "nonsense"), "expected HOST:PORT"),
        (("--set", "ottla.gateway.max.bodies=1"), "There is no setting"),
        (("--set", "ottla.gateway.key.file=k.pem"), "needs ottla.gateway.certificate.file"),
        (("--set", "ottla.gateway.certificate.file=none.pem"), "none.pem"),
    ]
    for options, words in refused:
        done = CliRunner().invoke(gateway_command, options)
        assert (done.exit_code, words in done.output) == (2, True), done.output


def test_without_its_libraries_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("ottla.gateway")] + ["h11"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h11", None)
    done = CliRunner().invoke(gateway_command, [])
    assert (done.exit_code, "pip install 'ottla[gateway]'" in done.output) == (2, True), done.output


def test_a_stopped_gateway_answers_and_ends(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic("stopped")
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker.bootstrap}\nottla.gateway.listen=127.0.0.1:0\n")
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "gateway", "--config", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.search(r"is ready at http://127.0.0.1:(\d+) ", ready)
        assert found, ready
        place = GatewayPlace.__new__(GatewayPlace)
        place.port = int(found[1])
        path = place.instance("stopping")
        place.call("POST", f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        with place.connect() as waiting:
            waiting.sendall(b"GET %s/records?timeout=50000 HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
            place.call("GET", "/brokers")  # answered: so the long poll was read as well
            process.terminate()
            answer = read_to_end(waiting)
        assert process.wait(DEADLINE_S) == 0
        assert status_of(answer) == 200
        assert b"connection: close" in answer.lower()


def test_serve_starts_a_gateway_beside_the_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "serve", "--data", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        [*command, "--gateway", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "is ready at" in process.stdout.readline()
        found = re.search(r"gateway is ready at http://127.0.0.1:(\d+) ", process.stdout.readline())
        assert found is not None
        assert process.stdout.readline() == f"The console is at http://127.0.0.1:{found[1]}/console\n"
        place = GatewayPlace.__new__(GatewayPlace)
        place.port = int(found[1])
        assert place.call("GET", "/brokers").json == {"brokers": [1]}
        process.kill()
        # The output ends when the last process that has it ends: the gateway does not outlive a killed broker.
        assert process.stdout.read() == ""


def test_serve_starts_a_gateway_beside_a_secured_broker(tmp_path: Path) -> None:
    """Over TLS, with the broker's certificate; callers log in to the cluster with their own passwords."""
    command = [sys.executable, "-m", "ottla.cli.main", "serve", "--data", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        [*command, "--secure", "--gateway", "localhost:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.search(r"gateway is ready at https://localhost:(\d+) ", lines[2])
        assert found is not None, lines
        place = GatewayPlace.__new__(GatewayPlace)
        place.port = int(found[1])
        files = SecurityFiles(tmp_path)
        context = ssl.create_default_context(cafile=str(files.authority))
        assert place.call("GET", "/brokers", context=context).error == (401, 40101)
        own = files.security
        login = basic(str(own.username), str(own.password))
        assert place.call("GET", "/brokers", context=context, headers=login).json == {"brokers": [1]}
        assert place.call("GET", "/subjects", context=context, headers=login).json == []
        process.terminate()
        assert process.wait(DEADLINE_S) == 0


def test_a_gateway_is_not_put_in_front_of_a_secured_listener(tmp_path: Path) -> None:
    options = ["--data", str(tmp_path), "--gateway", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"]
    done = CliRunner().invoke(
        serve_command, [*options, "--set", "security.inter.broker.protocol=SASL_PLAINTEXT"]
    )
    assert done.exit_code == 2
    assert "SASL_PLAINTEXT" in done.output
