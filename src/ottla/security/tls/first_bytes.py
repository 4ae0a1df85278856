"""What a peer speaks, by the first bytes that it sends: for the log, when a listener and a client differ in TLS."""

from typing import Final

# TLS records: a handshake, an alert.
_RECORDS: Final = (0x16, 0x15)
_MAJOR_VERSION: Final = 3
_HTTP: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN", b"PRI ")
# A fatal alert about the protocol: clients that do not speak TLS can tell from it that the other side does.
NOT_TLS_ALERT: Final = bytes((0x15, 3, 3, 0, 2, 2, 70))


def is_tls(data: bytes | bytearray | memoryview) -> bool:
    """Whether bytes begin as TLS does; also true for a prefix of such bytes."""
    return data[0] in _RECORDS and (len(data) < 2 or data[1] == _MAJOR_VERSION)


def looks_like(data: bytes | bytearray | memoryview) -> str:
    """What bytes that are not TLS look like, as a phrase: "it looks like …"."""
    head = bytes(data[:4])
    if any(verb.startswith(head) for verb in _HTTP):
        return "HTTP"
    if head[:1] == b"\0":
        return "a Kafka client without TLS: set its security.protocol to SSL, or use another port"
    return "no protocol that is served here"
