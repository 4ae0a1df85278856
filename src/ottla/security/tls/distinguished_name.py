"""The subject of a certificate as text, as Java prints it: RFC 2253, as `X500Principal.getName()` writes it.

Access control lists name principals by this text, so it must be Java's to the letter: the last relative name
comes first, only the attribute types of RFC 2253 have keywords, every other type is a number with its value in
hexadecimal DER, and some characters are escaped that RFC 2253 leaves alone.
"""

from typing import Final

from ottla.security.tls.certificate import Attribute, Certificate

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# ASN.1's string types, and how Java reads their bytes.
_CHARSETS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "ascii",  # IA5String
    0x1B: "latin-1",  # GeneralString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_name(certificate: Certificate) -> str:
    """The subject, its last relative name first; empty if the certificate has none."""
    return ",".join("+".join(map(_text, relative)) for relative in reversed(certificate.subject))


def _text(attribute: Attribute) -> str:
    keyword, charset = _KEYWORDS.get(attribute.oid), _CHARSETS.get(attribute.tag)
    if keyword is None or charset is None:
        return f"{keyword or attribute.oid}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value.decode(charset, 'replace'))}"


def _der(attribute: Attribute) -> bytes:
    size = len(attribute.value)
    if size < 0x80:
        return bytes((attribute.tag, size)) + attribute.value
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((attribute.tag, 0x80 | len(length))) + length + attribute.value


def _escaped(value: str) -> str:
    body = value.strip(" \r")
    start = value.find(body) if body else len(value)
    escaped = "".join("\\00" if c == "\0" else f"\\{c}" if c in _ESCAPED else c for c in body)
    before, after = value[:start], value[start + len(body) :]
    return "".join(f"\\{c}" for c in before) + escaped + "".join(f"\\{c}" for c in after)
