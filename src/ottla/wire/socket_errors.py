"""Why a socket failed, as a person would say it."""

from __future__ import annotations

import os
import re
import socket


def reason(error: BaseException) -> str:
    """Why a socket failed, as a phrase, without the numbers and addresses that the system adds."""
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError):
        if type(error).__module__ == "ssl":
            from ottla.runtime.tls_failures import why_asking_failed

            return why_asking_failed(error)  # type: ignore[arg-type]
        # asyncio joins the failures of all addresses of a name into one text; they rarely differ in kind.
        joined = re.search(r"\[Errno (\d+)\]", str(error))
        number = error.errno or (int(joined[1]) if joined else 0)
        if number:
            return os.strerror(number).lower()
    return str(error) or type(error).__name__
