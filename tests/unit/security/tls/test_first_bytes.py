"""What a peer speaks is told from its first bytes, for the log."""

import pytest

from ottla.security.tls.first_bytes import NOT_TLS_ALERT, is_tls, looks_like


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00", b"\x16", b"\x16\x03", NOT_TLS_ALERT])
def test_tls_is_known_by_its_first_bytes(data: bytes) -> None:
    assert is_tls(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0\0\0\x23\0\x12\0\4", "a Kafka client without TLS"),
        (b"\0", "a Kafka client without TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\xff\xfe", "no protocol that is served here"),
        (b"\x16\x02", "no protocol that is served here"),
    ],
)
def test_other_protocols_are_named(data: bytes, words: str) -> None:
    assert not is_tls(data)
    assert looks_like(data).startswith(words)
