"""The name of a certificate's subject is Java's, to the letter: rights are given to it.

The expected texts are those of `X500Principal.getName()`.
"""

from datetime import UTC, datetime

import pytest

from ottla.security.tls.certificate import Attribute, Certificate
from ottla.security.tls.distinguished_name import subject_name

CN, O, OU, C, EMAIL = "2.5.4.3", "2.5.4.10", "2.5.4.11", "2.5.4.6", "1.2.840.113549.1.9.1"  # noqa: E741
UTF8, PRINTABLE, IA5, BMP, OCTETS = 0x0C, 0x13, 0x16, 0x1E, 0x04


def named(*relative: tuple[Attribute, ...]) -> str:
    now = datetime.now(UTC)
    return subject_name(Certificate(relative, now, now))


def common_name(value: str) -> str:
    return named((Attribute(CN, UTF8, value.encode()),))


def test_the_last_relative_name_comes_first() -> None:
    subject = named(
        (Attribute(C, PRINTABLE, b"CZ"),),
        (Attribute(O, UTF8, b"Ottla"),),
        (Attribute(OU, UTF8, b"Brokers"),),
        (Attribute(CN, UTF8, "žižka".encode()),),
    )
    assert subject == "CN=žižka,OU=Brokers,O=Ottla,C=CZ"


def test_attributes_of_one_relative_name_are_joined_by_a_plus_sign() -> None:
    assert named((Attribute(CN, UTF8, b"a"), Attribute(OU, UTF8, b"b"))) == "CN=a+OU=b"


def test_types_that_rfc_2253_does_not_name_are_numbers_with_their_der_in_hexadecimal() -> None:
    assert named((Attribute(EMAIL, IA5, b"a@b.cz"),)) == "1.2.840.113549.1.9.1=#16066140622e637a"
    long = named((Attribute(EMAIL, IA5, b"x" * 200),))
    assert long.startswith("1.2.840.113549.1.9.1=#1681c87878")
    assert named((Attribute(CN, OCTETS, b"\1"),)) == "CN=#040101"


def test_other_string_types_are_read_in_their_charset() -> None:
    assert named((Attribute(CN, BMP, "ž".encode("utf-16-be")),)) == "CN=ž"
    assert named((Attribute("0.9.2342.19200300.100.1.25", IA5, b"example"),)) == "DC=example"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a,b", r"a\,b"),
        ('a+b"c\\d<e>f;g', r"a\+b\"c\\d\<e\>f\;g"),
        ("a=b#c", r"a\=b\#c"),
        (" a ", r"\ a\ "),
        ("  ", r"\ \ "),
        ("a  b", "a  b"),
        ("a\0b", r"a\00b"),
        ("", ""),
        ("broker-1.example.org:9092/x@y", "broker-1.example.org:9092/x@y"),
    ],
)
def test_special_characters_are_escaped_as_java_does(value: str, shown: str) -> None:
    assert common_name(value) == f"CN={shown}"


def test_a_subject_without_attributes_is_empty() -> None:
    assert named() == ""
