"""The parts of a broker that its monitoring looks at. It changes none of them."""

import asyncio
from dataclasses import dataclass

from ottla.config import BrokerConfig
from ottla.runtime.runtime import Runtime
from ottla.server.gate.services import Services
from ottla.server.net.listeners import Listeners
from ottla.server.partitions.compaction import Compaction
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum
from ottla.server.replicas.isr_proposals import Isr


@dataclass(frozen=True, slots=True)
class Subject:
    """The broker that is looked at. `halted` is done, with the reason, if the node cannot go on."""

    config: BrokerConfig
    runtime: Runtime
    services: Services
    listeners: Listeners
    isr: Isr
    compaction: Compaction | None
    halted: asyncio.Future[str]

    @property
    def halt_reason(self) -> str | None:
        """Why the node cannot go on; None while it can."""
        return self.halted.result() if self.halted.done() else None

    @property
    def partitions(self) -> Partitions:
        """The partitions on this node."""
        return self.services.partitions

    @property
    def quorum(self) -> Quorum:
        """This node's part in the metadata quorum."""
        return self.services.quorum

    @property
    def node_id(self) -> int:
        """The number of this node."""
        return self.config.node.id
