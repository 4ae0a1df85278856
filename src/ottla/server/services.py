"""What handlers work with: the parts of a running broker, put together once by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.config import BrokerConfig
from ottla.replication.fetch_session import FetchSessions
from ottla.server.controller_duties import ControllerDuties
from ottla.server.coordinators import Coordinators
from ottla.server.flushing import Flusher
from ottla.server.follower_sessions import FollowerSessions
from ottla.server.load import Load
from ottla.server.partitions import Partitions
from ottla.server.producer_ids import ProducerIds
from ottla.server.quorum import Quorum


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
    load: Load
    now_ms: Callable[[], int]
