"""No secret in any log, error, dump or process list: everything that can be seen is searched for every secret that
was used (OPS-5).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from tests.integration.command_line import OTTLA
from tests.integration.command_line import ottla as command_line
from tests.integration.tls_place import TlsPeer

from ottla import Admin, KafkaError
from ottla.cli.main import ottla
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.localcluster.broker_process import BrokerProcess, await_ready, spawn
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.launch import running_cluster
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.ports import HOST
from ottla.localcluster.security_files import SecurityFiles
from ottla.localcluster.waiting import wait_until
from ottla.model import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.settings import Security

KEY_PASSWORD = "key-password-4711"
ALICE = "alice-password-4711"
GUESS = "guessed-password-4711"
TYPED = "mistyped-secret-4711"  # in files and options that cannot be used


@dataclass
class Seen:
    """All that could be seen, by where."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, where: str, text: str) -> None:
        self.texts[where] = self.texts.get(where, "") + text

    def command(self, *arguments: str, stdin: str | None = None, **environment: str) -> int:
        done = CliRunner().invoke(ottla, arguments, input=stdin, env=environment)
        self.add(" ".join(arguments), f"{done.output} {done.exception!r}")
        return done.exit_code

    def refuse(self, secrets: dict[str, str]) -> None:
        """Fail if one of the secrets can be seen, with where, and which."""
        found = [
            f"{name} in {where}"
            for where, text in self.texts.items()
            for name, secret in secrets.items()
            if secret in text
        ]
        assert found == []


@dataclass
class Served:
    """A secured broker that logs in detail."""

    process: BrokerProcess
    files: SecurityFiles
    data: Path

    @property
    def secrets(self) -> dict[str, str]:
        password = self.files.security.password
        assert password is not None
        keys = {path.name: key_body(path.read_text()) for path in self.files.directory.glob("*.key")}
        own = {"the administrator's": password, "alice's": ALICE, "a guess": GUESS, "a typed one": TYPED}
        return {**own, **keys, "the key's password": KEY_PASSWORD}

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.process.port}"


def key_body(pem: str) -> str:
    """A line of a key: what no log has by chance."""
    return pem.splitlines()[1]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("served")
    files = SecurityFiles(data)
    files.make()
    encrypt(files.directory / "broker.key")
    (data / "key.password").write_text(f"{KEY_PASSWORD}\n")
    settings = {
        "ottla.ssl.key.password.file": str(data / "key.password"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ottla.audit.log": "all",
        "ottla.audit.log.file": str(data / "audit.log"),
        "connection.failed.authentication.delay.ms": "0",
    }
    command = [OTTLA, "serve", "--secure", "-v", "--port", "0", "--data", str(data)]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    process = spawn("ottla", command, data, data / "output", 0)
    try:
        await_ready(process, lambda: "Try: ottla" in process.said())
        found = re.search(r"is ready at localhost:(\d+)", process.said())
        assert found is not None
        process.port = int(found[1])
        yield Served(process, files, data)
    finally:
        process.kill()


def encrypt(path: Path) -> None:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))


async def login(bootstrap: str, security: Security) -> str:
    """Log in and ask; the text of the error, if there is one."""
    try:
        async with Admin(bootstrap, security=security) as admin:
            await admin.list_topics()
    except (KafkaError, ConnectionError) as error:
        return f"{error} {error!r}"
    return ""


def test_a_secret_that_can_be_seen_is_found() -> None:
    with pytest.raises(AssertionError, match="a guess in the log"):
        Seen({"the log": f"refused {GUESS}"}).refuse({"a guess": GUESS})


def test_logins_good_and_bad_leave_no_secret_in_logs_and_errors(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen, admin = Seen(), {"OTTLA_CONFIG": str(served.files.client_properties)}
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        added = ("users", "add", "alice", "--password-stdin", "--mechanism", mechanism)
        assert seen.command(*added, stdin=f"{ALICE}\n", **admin) == 0
    caplog.set_level(logging.DEBUG)
    trusted = replace(served.files.security, username="alice")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for password in (ALICE, GUESS):
            who = replace(trusted, sasl_mechanism=mechanism, password=password)  # type: ignore[arg-type]
            problem = asyncio.run(login(served.bootstrap, who))
            assert ("SASL_AUTHENTICATION_FAILED" in problem) == (password == GUESS), problem
            seen.add("an error", f"{problem} {who!r}")
    seen.add("an error of Spark's connection", blocking_error(served, replace(trusted, password=GUESS)))
    malformed(served)
    seen.add("the log of our clients", caplog.text)
    wait_until(
        lambda: "user 'alice' is unknown or has another password" in served.process.said(), "it is logged"
    )
    seen.add("the log of the broker", served.process.said())
    seen.add("the audit log", (served.data / "audit.log").read_text())
    seen.refuse(served.secrets)


def blocking_error(served: Served, security: Security) -> str:
    address = Address("localhost", served.process.port)
    with pytest.raises((KafkaError, ConnectionError)) as failed:
        BlockingConnection(
            address, client_id="c", timeout_ms=5_000, connect_timeout_ms=5_000, security=security
        )
    return f"{failed.value} {failed.value!r}"


def malformed(served: Served) -> None:
    """A password in a message that is none: whoever logs the message logs the password."""
    security = Security(protocol="SSL", ca_file=served.files.authority)
    for token in (
        f"{GUESS}".encode(),
        f"a\0b\0c\0{GUESS}".encode(),
        f"n,,n={GUESS},r=\xff".encode("latin-1"),
    ):
        with TlsPeer(served.process.port, security) as peer:
            peer.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            answer = peer.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
            assert answer.error_code != 0
            assert GUESS not in repr(answer)


def test_commands_and_dumps_show_no_secret(served: Served) -> None:
    seen, admin = Seen(), {"OTTLA_CONFIG": str(served.files.client_properties)}
    stdin = f"{ALICE}\n"
    seen.command("users", "add", "bob", "--password-stdin", stdin=stdin, **admin)
    for command in (
        ("configs", "describe", "--all"),
        ("configs", "describe", "--all", "--json"),
        ("users", "list", "--json"),
        ("acls", "list"),
        ("topics", "list"),
        ("cluster", "status", "--bootstrap", served.bootstrap, "--json"),
        ("doctor", "--bootstrap", served.bootstrap, "--json"),
    ):
        assert seen.command(*command, **admin) in (0, 1), command
    seen.command("doctor", "--data", str(served.data))
    seen.command("dump", str(served.data), "--records", "--json")
    assert any("UserScramCredentialRecord" in text for text in seen.texts.values()), (
        "there is something to hide"
    )
    for path in served.data.rglob("*"):
        if path.is_file() and served.files.directory not in path.parents and path.name != "key.password":
            seen.add(str(path), path.read_bytes().decode("latin-1"))
    seen.refuse(served.secrets)


@pytest.mark.parametrize(
    "lines",
    [
        "sasl.jaas.config=something password=SECRET\nsecurity.protocol=SASL_SSL",
        "sasl.password=SECRET",
        "sasl.passwort=SECRET",
        "=SECRET",
        "security.protocol=SSL\nssl.keystore.key=SECRET",
        "security.protocol=SSL\nssl.keystore.key=SECRET\nssl.keystore.certificate.chain=SECRET",
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.password=SECRET",
    ],
)
def test_a_clients_file_that_cannot_be_used_is_refused_without_its_secret(lines: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{lines.replace('SECRET', TYPED)}\n")
    seen = Seen()
    assert seen.command("topics", "list", "--bootstrap", f"{HOST}:1", "--config", str(file)) in (1, 2)
    seen.refuse({"a typed one": TYPED})


@pytest.mark.parametrize(
    "setting",
    [
        "ssl.key.password=SECRET",  # of a key that has another
        "ssl.key.passwort=SECRET",
        "sasl.jaas.config=module required password=SECRET;",
        "listener.name.sasl_ssl.plain.sasl.jaas.config=SECRET",
        "ssl.keystore.key=SECRET",
    ],
)
def test_a_broker_that_does_not_start_shows_no_secret(setting: str, served: Served, tmp_path: Path) -> None:
    seen = Seen()
    files = ("--config", str(served.files.broker_properties))
    listeners = ("--set", f"listeners=SASL_SSL://{HOST}:0,SSL://{HOST}:0", "--data", str(tmp_path / "data"))
    given = setting.replace("SECRET", TYPED)
    done = command_line("serve", *files, *listeners, "--set", given)
    seen.add("the refusal", done.stdout + done.stderr)
    assert done.returncode == 2
    file = tmp_path / "broker.properties"
    file.write_text(f"{given}\n")
    seen.command("doctor", "--settings", str(file))
    seen.refuse({"a typed one": TYPED})


@pytest.mark.parametrize(("line", "mode"), [("=SECRET", 0o600), ("admin=SECRET", 0o644)])
def test_a_users_file_that_cannot_be_used_is_refused_without_its_secret(
    line: str, mode: int, served: Served, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(line.replace("SECRET", TYPED))
    users.chmod(mode)
    seen = Seen()
    given = ("--set", f"ottla.sasl.users.file={users}", "--set", f"listeners=SASL_PLAINTEXT://{HOST}:0")
    done = command_line("serve", *given, "--data", str(tmp_path / "data"), "-v")
    assert done.returncode == 2
    seen.add("the refusal", done.stdout + done.stderr)
    seen.refuse({"a typed one": TYPED})


def test_the_processes_and_files_of_a_local_cluster_show_no_secret(tmp_path: Path) -> None:
    with running_cluster(tmp_path, ClusterOptions(brokers=1, port=0, is_secure=True)) as cluster:
        seen = Seen()
        supervisor = cluster.state.supervisor
        assert supervisor is not None
        for pid in (supervisor.pid, cluster.pid_of(1)):
            seen.add(f"process {pid}", Path(f"/proc/{pid}/cmdline").read_text())
            seen.add(f"environment of {pid}", Path(f"/proc/{pid}/environ").read_text())
        seen.add("the output", cluster.said() + cluster.broker_said(1))
        seen.add("cluster.json", (tmp_path / "cluster.json").read_text())
        seen.command("cluster", "status", "--data", str(tmp_path))
        seen.refuse(secrets_of(cluster))


def secrets_of(cluster: LocalCluster) -> dict[str, str]:
    files = SecurityFiles(cluster.data)
    password = files.security.password
    assert password is not None
    keys = {path.name: key_body(path.read_text()) for path in files.directory.glob("*.key")}
    return {"the administrator's": password, **keys}
