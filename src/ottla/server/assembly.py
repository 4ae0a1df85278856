"""The parts of a node, and how they are joined. Nothing here runs: `broker` starts and stops what is built."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.controller.config_sources import client_metrics_resources
from ottla.controller.image import ClusterImage
from ottla.log.directory import LogDirectory
from ottla.replication.fetch_session import FetchSessions
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.runtime import Runtime
from ottla.security.sasl.credentials import Credentials
from ottla.security.sasl.delegation_token import UsableTokens
from ottla.server.coordinators.coordinators import Coordinators
from ottla.server.coordinators.marker_writer import MarkerWriter
from ottla.server.coordinators.transactions import Transactions
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.handlers import Registered
from ottla.server.gate.login import Logins
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.rights import Rights
from ottla.server.gate.services import Services
from ottla.server.gate.signing_keys import SigningKeys
from ottla.server.housekeeping import Housekeeping
from ottla.server.load_metrics import Load
from ottla.server.net.listeners import Listeners
from ottla.server.partitions.compaction import Compaction
from ottla.server.partitions.file_removal import Remover
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.memory_limit import MemoryLimit
from ottla.server.partitions.partition_table import Partitions
from ottla.server.partitions.scrubbing import Scrubber
from ottla.server.quorum.controller_duties import ControllerDuties
from ottla.server.quorum.opening import open_quorum
from ottla.server.quorum.peer_login import read_users
from ottla.server.quorum.producer_ids import ProducerIds
from ottla.server.quorum.quorum import Quorum
from ottla.server.replicas.damaged_replicas import DamagedReplicas
from ottla.server.replicas.fetcher_lane import FetcherServices
from ottla.server.replicas.fetchers import Fetchers
from ottla.server.replicas.follower_sessions import FollowerSessions
from ottla.server.replicas.isr_proposals import Isr
from ottla.server.schemas.schemas_topic import SchemasTopic
from ottla.server.tiers.opening import open_tiers
from ottla.telemetry.clients.instances import ClientInstances, Subscriptions
from ottla.telemetry.clients.subscriptions import subscriptions_of


@dataclass(frozen=True, slots=True)
class Foundation:
    """What a node has before its parts are built."""

    config: BrokerConfig
    runtime: Runtime
    handlers: Registered
    directory: LogDirectory
    incarnation_id: UUID
    flusher: Flusher
    remover: Remover

    def new_session_id(self) -> int:
        """A number for a fetch session."""
        return self.runtime.random.randrange(1, 1 << 31)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node, built together."""

    quorum: Quorum
    services: Services
    partitions: Partitions
    hosting: Hosting
    isr: Isr
    fetchers: Fetchers
    damaged: DamagedReplicas
    scrubber: Scrubber
    listeners: Listeners
    housekeeping: Housekeeping
    compaction: Compaction | None
    memory: MemoryLimit | None


def build_parts(
    node: Foundation,
    on_image: Callable[[ClusterImage, ClusterImage], Awaitable[None]],
    halt: Callable[[str], None],
) -> Parts:
    """Build a node. `on_image` carries changes of metadata out; `halt` ends a node that cannot go on."""
    config, runtime, now_ms = node.config, node.runtime, node.runtime.clock.wall_ms
    quorum = open_quorum(config, node.directory, runtime, on_image, halt)
    partitions = Partitions(lambda: quorum.image)
    isr = Isr(config, quorum, partitions)
    hosting = Hosting(
        config,
        node.directory,
        partitions,
        node.remover,
        now_ms,
        incarnation_id=node.incarnation_id,
        propose=isr.propose,
    )
    sessions = FollowerSessions(node.new_session_id)
    services = _services(node, quorum, partitions, sessions, lambda: listeners)
    listeners = _listeners(node, services)
    fetchers = Fetchers(
        FetcherServices(config, quorum, hosting, quorum.peers, node.flusher, now_ms), partitions, sessions
    )
    return Parts(
        quorum=quorum,
        services=services,
        partitions=partitions,
        hosting=hosting,
        isr=isr,
        fetchers=fetchers,
        damaged=DamagedReplicas(config, quorum, partitions, fetchers, node.directory.directory_id),
        scrubber=Scrubber(config.scrub, partitions, runtime.random),
        listeners=listeners,
        housekeeping=Housekeeping(config, partitions, hosting, node.flusher, listeners, now_ms),
        compaction=_compaction(node, partitions),
        memory=_memory_limit(node, partitions, hosting),
    )


def _services(
    node: Foundation,
    quorum: Quorum,
    partitions: Partitions,
    sessions: FollowerSessions,
    listeners: Callable[[], Listeners],
) -> Services:
    config, runtime, now_ms = node.config, node.runtime, node.runtime.clock.wall_ms
    producer_ids = ProducerIds(quorum)
    groups = Coordinators(config, quorum, partitions, node.flusher, runtime)

    def reload_certificates(*, only_checks: bool) -> None:
        listeners().reload_certificates(only_checks=only_checks)

    return Services(
        config=config,
        quorum=quorum,
        duties=ControllerDuties(config, quorum, quorum.peers),
        partitions=partitions,
        fetch_sessions=FetchSessions(config.fetches.max_incremental_session_cache_slots, node.new_session_id),
        follower_sessions=sessions,
        flusher=node.flusher,
        producer_ids=producer_ids,
        coordinators=groups,
        markers=MarkerWriter(partitions, groups, node.flusher, now_ms),
        transactions=Transactions(config, quorum, partitions, node.flusher, producer_ids, runtime),
        schemas=SchemasTopic(quorum, partitions),
        rights=_rights(config, quorum, now_ms),
        quotas=Quotas(config.quotas, monotonic_ms),
        load=Load(config.logs.directory, partitions, lambda: listeners().traffic, runtime),
        disk=runtime.disk,
        reload_certificates=reload_certificates,
        client_metrics=_client_metrics(config, quorum, runtime),
        tiers=open_tiers(config, quorum, partitions, runtime),
        now_ms=now_ms,
    )


def _listeners(node: Foundation, services: Services) -> Listeners:
    gate = _gate(services, node.handlers)
    logins = _logins(node.config, gate, services.quorum, node.runtime)
    return Listeners(node.config, gate, node.runtime, logins)


def _compaction(node: Foundation, partitions: Partitions) -> Compaction | None:
    cleaner, runtime = node.config.cleaner, node.runtime
    if not cleaner.enable:
        return None
    return Compaction(cleaner, partitions, node.directory, runtime, runtime.clock.wall_ms)


def _memory_limit(node: Foundation, partitions: Partitions, hosting: Hosting) -> MemoryLimit | None:
    logs, runtime = node.config.logs, node.runtime
    if logs.memory_bytes is None:
        return None
    return MemoryLimit(runtime.disk, logs.directory, partitions, hosting, runtime.clock.wall_ms)


def _rights(config: BrokerConfig, quorum: Quorum, wall_ms: Callable[[], int]) -> Rights | None:
    settings, audit = config.authorisation, None
    if not settings.is_enabled:
        return None
    if settings.has_audit_log:
        # Imported here: most brokers have no audit log.
        from ottla.server.gate.audit import open_audit_log

        audit = open_audit_log(settings, wall_ms)
    return Rights(settings, lambda: quorum.image.acls, audit)


def _client_metrics(config: BrokerConfig, quorum: Quorum, runtime: Runtime) -> ClientInstances:
    known: tuple[object, Subscriptions] = None, ()

    def subscriptions() -> Subscriptions:
        """Those of the metadata now; made again when some setting of the cluster has changed."""
        nonlocal known
        configs = quorum.image.configs
        if known[0] is not configs:
            known = configs, subscriptions_of(client_metrics_resources(quorum.image))
        return known[1]

    return ClientInstances(subscriptions, runtime.random.uuid4, config.monitoring.telemetry_max_bytes)


def _logins(config: BrokerConfig, gate: Gate, quorum: Quorum, runtime: Runtime) -> Logins | None:
    if not any(each.uses_sasl for each in config.node.bound_listeners):
        return None
    uuid4 = runtime.random.uuid4
    credentials = Credentials(
        read_users(config.sasl),
        lambda: quorum.image.scram_users if gate.is_open else None,
        uuid4().bytes + uuid4().bytes,
        UsableTokens(
            config.delegation_tokens.secret_key,
            lambda: quorum.image.delegation_tokens if gate.is_open else None,
            runtime.clock.wall_ms,
        ),
    )
    accepts_tokens = "OAUTHBEARER" in config.sasl.enabled_mechanisms
    signing_keys = SigningKeys(config.oauth, runtime) if accepts_tokens else None
    return Logins(config.sasl, credentials, runtime.clock.wall_ms, lambda: uuid4().hex, signing_keys)


def _gate(services: Services, handlers: Registered) -> Gate:
    if services.rights is None:
        return Gate(services, handlers)
    # Imported here: guards know every message, and most brokers check no rights.
    from ottla.server.guards.guarded import guarded

    return Gate(services, guarded(handlers, services.rights))
