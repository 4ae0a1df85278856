"""All listeners of a node: one for each entry of the setting `listeners`, opened and closed together.

They share the limits on connections: `max.connections` counts those of all listeners.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.config import BrokerConfig
from ottla.config.listeners import Listener as ListenerAddress
from ottla.runtime.runtime import Runtime
from ottla.security.quota.entities import ClientQuotas
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.login import Logins
from ottla.server.load_metrics import Traffic
from ottla.server.net.admission import Admission
from ottla.server.net.entrance import Entrance
from ottla.server.net.listener import Listener
from ottla.server.net.refusal_log import RefusalLog

if TYPE_CHECKING:
    from ottla.server.net.tls_door import TlsDoor


class Listeners:
    """The listeners of a node, in the order of the setting."""

    def __init__(
        self, config: BrokerConfig, gate: Gate, runtime: Runtime, logins: Logins | None = None
    ) -> None:
        self._node = config.node
        self._gate = gate
        self._network = runtime.network
        self._logins = logins
        self._admission = Admission(config)
        self._refusals = RefusalLog()
        addresses = self._node.bound_listeners
        self._tls = (
            _tls_door(config, runtime, self._refusals) if any(each.uses_tls for each in addresses) else None
        )
        self._each = [self._listener(address) for address in addresses]

    def _listener(self, address: ListenerAddress) -> Listener:
        return Listener(
            address,
            self._node.advertised_name(address.name),
            self._gate,
            self._admission,
            Entrance(
                self._network,
                self._refusals,
                self._tls if address.uses_tls else None,
                self._logins if address.uses_sasl else None,
            ),
        )

    @property
    def port(self) -> int:
        """The port of the listener that is named first."""
        return self._each[0].port

    def port_of(self, name: str) -> int:
        """The port of a listener; the kernel's choice where the settings say 0."""
        return next(each.port for each in self._each if each.name == name)

    @property
    def advertised(self) -> tuple[ListenerAddress, ...]:
        """Where clients and brokers reach this node; what the settings leave open is filled in."""
        return tuple(
            replace(
                each,
                host=each.host or self._network.host_name(),
                port=each.port or self.port_of(each.name),
            )
            for each in self._node.advertised
        )

    @property
    def all(self) -> list[Listener]:
        """Each of them, to look at."""
        return list(self._each)

    @property
    def is_gate_open(self) -> bool:
        """Whether clients are let in, not only other nodes."""
        return self._gate.is_open

    @property
    def failed_logins(self) -> int:
        """How many logins failed since the start."""
        return 0 if self._logins is None else self._logins.failures

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return self._admission.connection_count

    @property
    def traffic(self) -> Traffic:
        """The bytes received and sent, and what was refused, since the start."""
        each = [listener.traffic for listener in self._each]
        return Traffic(
            sum(one.received_bytes for one in each),
            sum(one.sent_bytes for one in each),
            refused_connections=self._refusals.count,
            failed_logins=0 if self._logins is None else self._logins.failed_count,
        )

    def bind(self) -> None:
        """Have the addresses, and let clients queue at them. Raises OSError when one cannot be had."""
        try:
            for listener in self._each:
                listener.bind()
        except OSError:
            for listener in self._each:
                listener.close_sockets()
            raise

    def start_accepting(self) -> None:
        """Accept connections of other nodes; clients can connect, and wait until the gate opens."""
        for listener in self._each:
            listener.start_accepting()
        if self._tls is not None:
            self._tls.start()
        if self._logins is not None:
            self._logins.start()

    def open_gate(self) -> None:
        """Let clients in, not only other nodes."""
        self._gate.open()
        if self._logins is not None:
            self._logins.users_are_loaded()
        for listener in self._each:
            listener.resume()

    def stop_accepting(self) -> None:
        """Close the doors; connections that are in stay."""
        for listener in self._each:
            listener.stop_accepting()
        if self._tls is not None:
            self._tls.stop()
        if self._logins is not None:
            self._logins.stop()

    async def drain(self, timeout_s: float) -> None:
        """Let owed answers leave for a while, then close every connection."""
        await asyncio.gather(*(listener.drain(timeout_s) for listener in self._each))

    def configure(self, config: BrokerConfig) -> None:
        """Take changed limits over, for connections that are accepted from now on."""
        self._admission.configure(config)

    def apply(self, quotas: ClientQuotas) -> None:
        """These quotas of addresses are in force from now on."""
        self._admission.rates.apply(quotas)

    def reload_certificates(self, *, only_checks: bool) -> None:
        """Load the certificates of listeners with TLS now. Raises ConfigError if they cannot be used."""
        if self._tls is not None:
            self._tls.reload(only_checks=only_checks)

    def reap(self) -> None:
        """Close connections that were idle too long; take large buffers back from silent ones."""
        for listener in self._each:
            listener.reap()
        self._refusals.flush(asyncio.get_running_loop().time())


def _tls_door(config: BrokerConfig, runtime: Runtime, refusals: RefusalLog) -> TlsDoor:
    # Imported here: most brokers are without TLS.
    from ottla.server.net.tls_door import TlsDoor

    return TlsDoor(config.tls, runtime.network, runtime.clock.wall_s, refusals)
