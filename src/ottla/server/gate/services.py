"""The parts of a running broker that handlers use, put together once by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.config import BrokerConfig
from ottla.replication.fetch_session import FetchSessions
from ottla.runtime.disk import Disk
from ottla.server.coordinators.coordinators import Coordinators
from ottla.server.coordinators.marker_writer import MarkerWriter
from ottla.server.coordinators.transactions import Transactions
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.request_counts import RequestCounts
from ottla.server.gate.rights import Rights
from ottla.server.load_metrics import Load
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.controller_duties import ControllerDuties
from ottla.server.quorum.producer_ids import ProducerIds
from ottla.server.quorum.quorum import Quorum
from ottla.server.replicas.follower_sessions import FollowerSessions
from ottla.server.schemas.schemas_topic import SchemasTopic
from ottla.telemetry.clients.instances import ClientInstances

if TYPE_CHECKING:
    # Most brokers have no tiered storage.
    from ottla.server.tiers.tiers import Tiers


class ReloadCertificates(Protocol):
    """Loads the certificates of the listeners now. Raises ConfigError if they cannot be used."""

    def __call__(self, *, only_checks: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """The broker's parts, as handlers see them."""

    config: BrokerConfig
    quorum: Quorum
    duties: ControllerDuties
    partitions: Partitions
    fetch_sessions: FetchSessions
    follower_sessions: FollowerSessions
    flusher: Flusher
    producer_ids: ProducerIds
    coordinators: Coordinators
    markers: MarkerWriter
    transactions: Transactions
    schemas: SchemasTopic
    load: Load
    rights: Rights | None
    quotas: Quotas
    disk: Disk
    reload_certificates: ReloadCertificates
    client_metrics: ClientInstances
    tiers: "Tiers | None"
    now_ms: Callable[[], int]
    requests: RequestCounts = field(default_factory=RequestCounts)
