"""A broker's certificates: usable at the start or refused in a sentence, watched while it runs."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.tls_authority import Authority, Issued

from ottla.config import BrokerConfig, ConfigError
from ottla.security.principal import ANONYMOUS
from ottla.server.net.certificates import Certificates

DAY_S = 86_400.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("broker")


def loaded(settings: dict[str, str], now_s: float | None = None) -> Certificates:
    tls = BrokerConfig.from_properties(settings).tls
    return Certificates(tls, time.time() if now_s is None else now_s)


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        loaded(settings)
    text = str(refused.value)
    assert text.endswith("."), "a sentence"
    return text


def test_a_key_and_its_certificate_may_be_in_one_file_as_in_kafkas_key_store(
    issued: Issued, tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.touch(mode=0o600)
    both.write_text(issued.key.read_text() + issued.certificate.read_text())
    loaded({"ssl.keystore.location": str(both), "ssl.keystore.type": "PEM"})
    loaded({"ottla.ssl.certificate.file": str(both)})


def test_a_key_and_its_certificate_may_be_texts_on_one_line(authority: Authority, issued: Issued) -> None:
    loaded(
        {
            "ssl.keystore.key": issued.key.read_text().replace("\n", " "),
            "ssl.keystore.certificate.chain": issued.certificate.read_text().replace("\n", " "),
            "ssl.truststore.certificates": authority.ca_file.read_text().replace("\n", " "),
            "ssl.client.auth": "required",
        }
    )


def test_an_encrypted_key_opens_with_a_password_from_the_settings_or_a_file(
    authority: Authority, tmp_path: Path
) -> None:
    locked = authority.issue("locked", password="sesame").broker_settings()
    (tmp_path / "password").write_text("sesame\n")
    loaded({**locked, "ssl.key.password": "sesame"})
    loaded({**locked, "ottla.ssl.key.password.file": str(tmp_path / "password")})
    assert "is encrypted: set its password (ssl.key.password)" in refusal(locked)
    wrong = refusal({**locked, "ssl.key.password": "simsim"})
    assert "The password of the private key is wrong" in wrong
    assert "simsim" not in wrong
    missing = refusal({**locked, "ottla.ssl.key.password.file": "/nonexistent"})
    assert "The file /nonexistent cannot be read: no such file" in missing


def test_each_mistake_is_one_sentence(authority: Authority, issued: Issued, tmp_path: Path) -> None:
    good = issued.broker_settings()
    other = authority.issue("other")
    binary = tmp_path / "store.p12"
    binary.write_bytes(b"\x30\x82" + bytes(100))
    assert "needs a certificate: set ottla.ssl.certificate.file" in refusal({})
    assert "/nowhere cannot be read: no such file" in refusal({"ottla.ssl.certificate.file": "/nowhere"})
    assert "holds another private key" in refusal({**good, "ottla.ssl.key.file": str(other.key)})
    assert "holds no private key" in refusal({**good, "ottla.ssl.key.file": str(issued.certificate)})
    assert "holds no certificate" in refusal({**good, "ottla.ssl.certificate.file": str(issued.key)})
    assert "openssl pkcs12 -in" in refusal({"ssl.keystore.location": str(binary)})
    assert "holds no certificate" in refusal({**good, "ssl.truststore.location": str(issued.key)})
    assert "is not a rule" in refusal({**good, "ssl.principal.mapping.rules": "CN"})
    assert "no suite that OpenSSL knows" in refusal({**good, "ssl.cipher.suites": "TLS_RSA_WITH_SALT"})
    assert "leave it out" in refusal({**good, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"})


def test_a_certificate_that_has_expired_or_is_not_yet_valid_is_refused(authority: Authority) -> None:
    old = authority.issue("old", lifetime=timedelta(days=-2)).broker_settings()
    assert "holds a certificate that expired on" in refusal(old)
    new = authority.issue("new").broker_settings()
    with pytest.raises(ConfigError, match="check the clock"):
        loaded(new, now_s=time.time() - 10 * DAY_S)


@pytest.mark.parametrize(
    "name",
    [
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
    ],
)
def test_cipher_suites_have_openssls_names_or_the_standard_ones(issued: Issued, name: str) -> None:
    loaded({**issued.broker_settings(), "ssl.cipher.suites": name})


def test_a_key_that_everybody_can_read_is_logged(issued: Issued, caplog: pytest.LogCaptureFixture) -> None:
    loaded(issued.broker_settings())
    assert "every user of this machine can read it" not in caplog.text
    issued.key.chmod(0o644)
    loaded(issued.broker_settings())
    assert "every user of this machine can read it" in caplog.text


def test_the_log_says_once_a_day_that_a_certificate_expires(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = time.time()
    certificates = loaded(authority.issue("b", lifetime=timedelta(days=40)).broker_settings())
    certificates.check(now_s)
    assert caplog.messages == []
    for hours in (0, 1, 23):
        certificates.check(now_s + 20 * DAY_S + hours * 3600)
    (line,) = caplog.messages
    assert "expires in 19 days" in line
    certificates.check(now_s + 21 * DAY_S)
    certificates.check(now_s + 41 * DAY_S)
    assert "expires in 18 days" in caplog.messages[1]
    assert "has expired" in caplog.messages[2]


def test_unusable_new_files_are_logged_once_and_the_old_certificate_stays(
    issued: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = loaded(issued.broker_settings())
    issued.certificate.unlink()
    for _ in range(3):
        certificates.check(time.time())
    (line,) = caplog.messages
    assert "the new certificates are not used, the old ones stay" in line
    assert "no such file" in line


def test_a_client_without_a_certificate_is_anonymous(issued: Issued) -> None:
    assert loaded(issued.broker_settings()).principal(None) == ANONYMOUS


def test_files_are_loaded_at_once_or_only_checked_and_the_reason_is_told_if_they_cannot_be(
    authority: Authority, issued: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    certificates = loaded(issued.broker_settings())
    certificates.reload(time.time(), only_checks=True)
    assert caplog.messages == []
    certificates.reload(time.time())
    assert "certificates are loaded again" in caplog.text
    issued.key.write_text("spoilt")
    for only_checks in (True, False):
        with pytest.raises(ConfigError, match="holds no private key"):
            certificates.reload(time.time(), only_checks=only_checks)
