from __future__ import annotations

import errno
import socket

from ottla.wire.socket_errors import reason


def test_reasons_are_words_without_numbers() -> None:
    assert (
        reason(ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)"))
        == "connection refused"
    )
    joined = OSError(
        "Multiple exceptions: [Errno 111] Connect call failed (...), [Errno 111] Connect call failed (...)"
    )
    assert reason(joined) == "connection refused"
    assert reason(socket.gaierror(-2, "Name or service not known")) == "no such host"
    assert reason(OSError("odd")) == "odd"
    assert reason(ValueError()) == "ValueError"
