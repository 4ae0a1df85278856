"""Certificates are read as far as a broker needs them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.tls_authority import Authority

from ottla.security.tls.certificate import Attribute, Certificate, CertificateError, certificates_in


def test_the_subject_and_the_lifetime_are_those_that_another_library_reads(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("broker", lifetime=timedelta(days=40 * 365))
    theirs = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    ours = Certificate.from_der(theirs.public_bytes(Encoding.DER))
    assert ours.subject == (
        (Attribute("2.5.4.6", 0x13, b"CZ"),),
        (Attribute("2.5.4.10", 0x0C, b"Ottla"),),
        (Attribute("2.5.4.3", 0x0C, b"broker"),),
    )
    assert (ours.not_before, ours.not_after) == (theirs.not_valid_before_utc, theirs.not_valid_after_utc)
    assert ours.not_after.year > 2050, "a time with four digits of the year"
    assert ours.not_before < datetime.now(UTC)


def test_types_of_attributes_with_large_numbers_are_read(tmp_path: Path) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.cz")])
    issued = Authority(tmp_path).issue(name)
    (read,) = certificates_in(issued.certificate.read_text())
    assert read.subject == ((Attribute("1.2.840.113549.1.9.1", 0x16, b"a@b.cz"),),)


def test_all_certificates_of_a_text_are_found_between_other_lines(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("broker")
    text = f"{issued.key.read_text()}\nthe chain:\n{issued.certificate.read_text()}{authority.ca_file.read_text()}"
    assert [read.subject[-1][0].value for read in certificates_in(text)] == [b"broker", b"Test Authority"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no certificate in PEM form"),
        ("-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----", "not base64"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "no certificate"),
    ],
)
def test_what_is_no_certificate_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(CertificateError, match=reason):
        certificates_in(text)


def test_every_truncated_certificate_is_refused(tmp_path: Path) -> None:
    theirs = x509.load_pem_x509_certificate(Authority(tmp_path).issue("b").certificate.read_bytes())
    whole = theirs.public_bytes(Encoding.DER)
    for end in range(0, len(whole), 7):
        with pytest.raises(CertificateError):
            Certificate.from_der(whole[:end])
