"""What a connection passes on its way in: the network, TLS where the listener has it, a login where it has one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.runtime.network import Network
from ottla.server.gate.login import Logins
from ottla.server.net.refusal_log import RefusalLog

if TYPE_CHECKING:
    from ottla.server.net.tls_door import TlsDoor


@dataclass(frozen=True, slots=True)
class Entrance:
    """The entrance of one listener."""

    network: Network
    refusals: RefusalLog
    tls: "TlsDoor | None" = None
    logins: Logins | None = None
