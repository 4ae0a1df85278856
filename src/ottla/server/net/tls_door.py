"""What the listeners with TLS of a node share: the certificates, and the look at them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.config import TlsConfig
from ottla.runtime.network import Network
from ottla.runtime.tls_socket import TlsNetwork
from ottla.server.net.certificates import Certificates
from ottla.server.net.handshakes import Handshakes, OnComplete, OnFailed
from ottla.server.net.refusal_log import RefusalLog

logger = logging.getLogger(__name__)

# Certificates that were replaced are in use after this long; a look costs a few system calls.
_CHECK_INTERVAL_S: Final = 3.0


class TlsDoor:
    """The TLS of a node's listeners. Raises ConfigError, in one sentence, if its certificates cannot be used."""

    def __init__(
        self, tls: TlsConfig, network: Network, wall_s: Callable[[], float], refusals: RefusalLog
    ) -> None:
        self.network = TlsNetwork(network)
        self._timeout_ms = tls.handshake_timeout_ms
        self._wall_s = wall_s
        self._certificates = Certificates(tls, wall_s())
        self._refusals = refusals
        self._next: asyncio.TimerHandle | None = None

    def handshakes(self, on_complete: OnComplete, on_failed: OnFailed) -> Handshakes:
        """The handshakes of one listener."""
        return Handshakes(self._certificates, self._refusals, self._timeout_ms, on_complete, on_failed)

    def start(self) -> None:
        """Look at the certificates now, and every few seconds."""
        loop = asyncio.get_running_loop()
        try:
            self._certificates.check(self._wall_s())
        except Exception:
            logger.exception("the look at the certificates failed; the next is in %g s", _CHECK_INTERVAL_S)
        self._next = loop.call_later(_CHECK_INTERVAL_S, self.start)

    def reload(self, *, only_checks: bool) -> None:
        """Load the certificates now. Raises ConfigError if they cannot be used."""
        self._certificates.reload(self._wall_s(), only_checks=only_checks)

    def stop(self) -> None:
        """Look no more."""
        if self._next is not None:
            self._next.cancel()
