"""Where a broker listens, as people write it: `localhost:9092`, `[::1]:9092`, several with commas between."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The addresses in `text`, separated by commas. Raises ValueError with a sentence that says what is wrong."""
    addresses = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError("no broker address was given: expected HOST:PORT, for example localhost:9092")
    return addresses


def parse_address(text: str) -> Address:
    """One address. The port may be left out; an IPv6 address with a port stands in brackets."""
    if text.count(":") > 1 and not text.startswith("["):
        raise ValueError(
            f'"{text}" is not an address: write an IPv6 address in brackets, for example [::1]:9092'
        )
    host, colon, port = _split(text)
    if not host:
        raise ValueError(f'"{text}" is not an address: expected HOST:PORT, for example localhost:9092')
    return Address(host, _port(port, text) if colon else DEFAULT_PORT)


def reason(error: BaseException) -> str:
    """Why a socket failed, in words, without the numbers and addresses that the system adds."""
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError):
        # asyncio joins the failures of all addresses of a name into one text; they rarely differ in kind.
        joined = re.search(r"\[Errno (\d+)\]", str(error))
        number = error.errno or (int(joined[1]) if joined else 0)
        if number:
            return os.strerror(number).lower()
    return str(error) or type(error).__name__


def _split(text: str) -> tuple[str, str, str]:
    if not text.startswith("["):
        return text.partition(":")
    host, bracket, rest = text[1:].partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        return "", "", ""
    return host, rest[:1], rest[1:]


def _port(text: str, address: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f'"{text}" in "{address}" is not a port: expected a number from 1 to 65535')
    return int(text)
