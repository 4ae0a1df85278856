"""The subject and the lifetime of an X.509 certificate, read from its DER or PEM form.

The `ssl` module verifies certificates, but tells a subject only with the names that OpenSSL gives its attributes
and without the types of its values, from which Java's text of the subject cannot be made. And it does not tell
when a certificate of our own expires. Only what leads to these two fields is read here; signatures, keys and
extensions are for OpenSSL.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

EXPIRES_SOON: Final = timedelta(days=30)  # time enough to have another one signed, whoever does it

_PEM_CERTIFICATE: Final = re.compile(
    r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----([^-]*)-----END (?:X509 |TRUSTED )?CERTIFICATE-----"
)
_VERSION_TAG: Final = 0xA0
_OID_TAG: Final = 0x06
_UTC_TIME_TAG: Final = 0x17


class CertificateError(ValueError):
    """Bytes that are no certificate; the message is a phrase that says why."""


class Attribute(NamedTuple):
    """One attribute of a name: its type as a dotted number, the ASN.1 tag of its value, the value."""

    oid: str
    tag: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is read of a certificate. `subject` has the relative names in the certificate's order."""

    subject: tuple[tuple[Attribute, ...], ...]
    not_before: datetime
    not_after: datetime

    @staticmethod
    def from_der(data: bytes) -> "Certificate":
        """Read a certificate. Raises CertificateError."""
        try:
            return _read(data)
        except (IndexError, ValueError) as error:
            raise CertificateError(f"it is no certificate: {error}") from error


def certificates_in(pem: str) -> list[Certificate]:
    """All certificates of a text in PEM form, in their order. Raises CertificateError if there is none."""
    found = [Certificate.from_der(_decoded(body)) for body in _PEM_CERTIFICATE.findall(pem)]
    if not found:
        raise CertificateError("it holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
    return found


def _decoded(body: str) -> bytes:
    try:
        return b64decode("".join(body.split()), validate=True)
    except binascii.Error as error:
        raise CertificateError(f"it is not base64: {error}") from error


def _read(data: bytes) -> Certificate:
    _, outer = _element(data, 0)[:2]
    _, signed = _element(outer, 0)[:2]
    fields = list(_elements(signed))
    if fields[0][0] == _VERSION_TAG:
        del fields[0]
    # serial number, algorithm, issuer, validity, subject
    validity, subject = fields[3][1], fields[4][1]
    not_before, not_after = (_time(tag, text) for tag, text in _elements(validity))
    relative = tuple(tuple(map(_attribute, _elements(one))) for _, one in _elements(subject))
    return Certificate(relative, not_before, not_after)


def _attribute(element: tuple[int, bytes]) -> Attribute:
    (oid_tag, oid), (tag, value) = _elements(element[1])
    if oid_tag != _OID_TAG:
        raise ValueError("an attribute without a type")
    return Attribute(_dotted(oid), tag, value)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        tag, value, position = _element(data, position)
        yield tag, value


def _element(data: bytes, position: int) -> tuple[int, bytes, int]:
    """The tag and the value of the DER element at a position, and the position behind it."""
    tag, size = data[position], data[position + 1]
    position += 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("a length that DER does not have")
        size = int.from_bytes(data[position : position + count], "big")
        position += count
    end = position + size
    if end > len(data):
        raise ValueError("it ends too early")
    return tag, data[position:end], end


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _time(tag: int, text: bytes) -> datetime:
    """A time of a certificate. Years of two digits are those from 1950 to 2049 (RFC 5280)."""
    digits = text.decode("ascii")
    if tag == _UTC_TIME_TAG:
        digits = ("19" if digits[0] >= "5" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
