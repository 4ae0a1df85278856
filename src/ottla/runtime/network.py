"""Sockets that listen, the options of accepted sockets, and `sendfile`.

Connections to other nodes are opened by the event loop (`loop.create_connection`); this module is for the
accepting side.
"""

import os
import socket
from typing import Any, Final, Protocol

CAN_SENDFILE: Final = hasattr(os, "sendfile")


class Socket(Protocol):
    """One accepted, non-blocking connection, as `socket.socket` has it."""

    def fileno(self) -> int: ...

    def recv_into(self, buffer: Any, nbytes: int = 0, /) -> int: ...

    def send(self, data: Any, /) -> int: ...

    def close(self) -> None: ...


class ListeningSocket(Protocol):
    """One bound, non-blocking socket that accepts, as `socket.socket` has it."""

    def fileno(self) -> int: ...

    def accept(self) -> tuple[Any, Any]: ...

    def getsockname(self) -> Any: ...

    def close(self) -> None: ...


class Network(Protocol):
    """The network operations that a listener needs."""

    @property
    def least_room_bytes(self) -> int:
        """The least room that `recv_into` of an accepted socket should be given."""

    def host_name(self) -> str:
        """The name of this machine."""

    def resolve(self, host: str, port: int) -> list[tuple[Any, str]]:
        """Every address of `host` with its family, IPv4 first; an empty host means every interface."""

    def listen(self, family: Any, address: str, port: int, backlog: int) -> ListeningSocket:
        """Bind and listen. OSError when the address cannot be had."""

    def configure(self, accepted: Socket, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
        """Make an accepted socket non-blocking and set its options; sizes of -1 leave the kernel's tuning
        on.
        """

    def sendfile(self, to: Socket, descriptor: int, position: int, size: int) -> int:
        """Send a range of a file without copying; the number of bytes taken. BlockingIOError when none
        are.
        """


class OsNetwork:
    """TCP of the operating system."""

    least_room_bytes: Final = 4 * 1024  # less is not worth a system call

    def host_name(self) -> str:
        return socket.gethostname()

    def resolve(self, host: str, port: int) -> list[tuple[Any, str]]:
        if not host:
            return [(socket.AF_INET, "0.0.0.0")]
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        unique = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
        return sorted(unique, key=lambda known: known[0] != socket.AF_INET)

    def listen(self, family: Any, address: str, port: int, backlog: int) -> ListeningSocket:
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address, port))
            listening.listen(backlog)
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        return listening

    def configure(self, accepted: Any, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # -1 leaves the kernel's own tuning on, which beats any fixed number on loopback.
        if send_buffer_bytes > 0:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if receive_buffer_bytes > 0:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)

    def sendfile(self, to: Socket, descriptor: int, position: int, size: int) -> int:
        return os.sendfile(to.fileno(), descriptor, position, size)
