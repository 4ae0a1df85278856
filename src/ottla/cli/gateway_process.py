"""`ottla serve --gateway`: a gateway in a process of its own, which lives as long as the broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from ottla.config import ConfigError, Listener
from ottla.model import Address

NOT_INSTALLED: Final = "The gateway needs libraries that are not installed: pip install 'ottla[gateway]'."
GRPC_NOT_INSTALLED: Final = "gRPC needs libraries that are not installed: pip install 'ottla[grpc]'."
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # of a listener
_STOP_S: Final = 15.0


def is_installed() -> bool:
    """Whether the libraries of the gateway are there."""
    return find_spec("h11") is not None and find_spec("wsproto") is not None


class GatewayProcess:
    """A gateway in front of one broker. It ends with the broker, also if the broker is killed: its input ends then."""

    def __init__(
        self,
        listen: str,
        broker: Listener,
        grpc: str | None = None,
        options: Sequence[str] = (),
        *,
        console_writes: bool = False,
    ) -> None:
        """`options` are how the gateway reaches a secured listener.

        Raises ConfigError if there can be no gateway in front of this listener.
        """
        if not is_installed():
            raise ConfigError(NOT_INSTALLED)
        if broker.protocol != "PLAINTEXT" and not options:
            raise ConfigError(
                f"--gateway needs --secure, or a first listener without security, and this is {broker.protocol}:"
                " run ottla gateway --config FILE with the properties of a client."
            )
        if grpc is not None and find_spec("grpc") is None:
            raise ConfigError(GRPC_NOT_INSTALLED)
        self._options = ["--listen", listen, *(() if grpc is None else ("--grpc", grpc)), *options]
        self._options += ["--console-writes"] if console_writes else []
        self._host = "localhost" if broker.host in _ANY_ADDRESS else broker.host
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, broker_port: int) -> None:
        """Start it; it says itself when it is ready, or why it cannot start. The broker goes on without it."""
        bootstrap = str(Address(self._host, broker_port))
        command = [sys.executable, "-m", "ottla.cli.main", "gateway", "--until-eof", "--bootstrap", bootstrap]
        self._process = subprocess.Popen([*command, *self._options], stdin=subprocess.PIPE)

    async def stop(self) -> None:
        """Let it end first: it commits offsets to the broker."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
