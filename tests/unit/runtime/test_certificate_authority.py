"""Certificates that are made: OpenSSL accepts them for what they are, and for nothing else."""

import contextlib
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.config import ConfigError
from ottla.runtime.certificate_authority import Authority, Issued, hosts_in, name_in
from ottla.security.tls.certificate import certificates_in
from ottla.security.tls.distinguished_name import subject_name

NOW = datetime(2026, 1, 31, 8, 30, tzinfo=UTC)
YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.founded("Authority", datetime.now(UTC), 10 * YEAR)


def handshake(directory: Path, authority: Authority, server: Issued, client: Issued, host: str) -> None:
    """A handshake in memory, in which both sides must show a certificate. Raises ssl.SSLError."""
    sides = []
    for name, issued, is_server in (("server", server, True), ("client", client, False)):
        (directory / f"{name}.pem").write_text(issued.certificate + issued.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(directory / f"{name}.pem")
        context.load_verify_locations(cadata=authority.issued.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides.append(
            (
                context.wrap_bio(
                    incoming, outgoing, server_side=is_server, server_hostname=None if is_server else host
                ),
                incoming,
                outgoing,
            )
        )
    (here, to_here, from_here), (there, to_there, from_there) = sides
    for _ in range(4):
        for tls in (there, here):
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            to_here.write(from_there.read())
            to_there.write(from_here.read())
    assert here.getpeercert() is not None
    assert there.getpeercert() is not None


def test_a_broker_and_a_client_accept_each_other(authority: Authority, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    broker = authority.broker("broker", ["a.example.org", "10.0.0.7", "::1"], now, YEAR)
    client = authority.client("alice", now, YEAR)
    for host in ("a.example.org", "10.0.0.7", "::1"):
        handshake(tmp_path, authority, broker, client, host)
    handshake(tmp_path, authority, broker, broker, "10.0.0.7")


def test_a_client_is_no_broker_and_a_host_is_no_other(authority: Authority, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    broker = authority.broker("broker", ["a.example.org"], now, YEAR)
    client = authority.client("alice", now, YEAR)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path, authority, broker, client, "b.example.org")
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path, authority, client, client, "alice")
    stranger = Authority.founded("Stranger", now, YEAR).client("alice", now, YEAR)
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path, authority, broker, stranger, "a.example.org")


def test_names_and_hosts_can_be_read_again() -> None:
    authority = Authority.founded("Authority", NOW, YEAR)
    broker = authority.broker("broker", ["a.example.org", "::1"], NOW, YEAR)
    assert (name_in(broker.certificate), hosts_in(broker.certificate)) == ("broker", ("a.example.org", "::1"))
    alice = authority.client("alice", NOW, YEAR).certificate
    assert (name_in(alice), hosts_in(alice)) == ("alice", ())
    (read,) = certificates_in(alice)
    assert subject_name(read) == "CN=alice,O=Ottla"


def test_no_certificate_outlives_its_authority() -> None:
    authority = Authority.founded("Authority", NOW, YEAR)
    (short,) = certificates_in(authority.client("a", NOW, timedelta(days=7)).certificate)
    assert short.not_after == NOW + timedelta(days=7)
    (long,) = certificates_in(authority.client("a", NOW, 2 * YEAR).certificate)
    assert long.not_after == authority.not_after
    with pytest.raises(ConfigError, match="expired on 2027-01-31"):
        authority.client("a", NOW + 2 * YEAR, YEAR)


def test_an_authority_comes_back_from_its_files_and_another_key_is_refused() -> None:
    first, second = (Authority.founded("Authority", NOW, YEAR) for _ in range(2))
    assert Authority(first.issued).not_after == first.not_after
    with pytest.raises(ConfigError, match="not that of its certificate"):
        Authority(Issued(first.issued.certificate, second.issued.key))
    with pytest.raises(ConfigError, match="cannot be used"):
        Authority(Issued("nothing", first.issued.key))
    assert "PRIVATE KEY" not in repr(first.issued)


def test_names_that_cannot_be_are_refused() -> None:
    authority = Authority.founded("Authority", NOW, YEAR)
    with pytest.raises(ConfigError, match="1 to 64 characters, not 65"):
        authority.client("a" * 65, NOW, YEAR)
    with pytest.raises(ConfigError, match="must name a host"):
        authority.broker("broker", [], NOW, YEAR)
    with pytest.raises(ConfigError, match="no name of a host"):
        authority.broker("broker", ["bücher.example"], NOW, YEAR)


def test_without_the_package_one_sentence_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None; from ottla.cli.main import ottla; "
        "ottla(['security', 'init', '--data', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "/nowhere"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "pip install 'ottla[security]'" in done.stderr
    assert "Traceback" not in done.stderr
