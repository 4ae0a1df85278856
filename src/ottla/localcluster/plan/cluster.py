"""The cluster to run, from what was asked for and from the directory's earlier cluster.

A cluster that was stopped comes back with the same brokers, ports, racks and settings, except for those that
are given again. It may come back with more brokers, never with fewer: the replicas on the missing brokers
would be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ottla.localcluster.plan.security_settings import BROKER_LISTENER, CLIENT_LISTENER
from ottla.localcluster.state import BrokerState, ClusterError, ClusterState

DEFAULT_BROKERS: Final = 3
DEFAULT_PORT: Final = 9092
DEFAULT_HOST: Final = "127.0.0.1"
MOST_BROKERS: Final = 32  # on one machine
MEMORY_SETTING: Final = "ottla.memory.bytes"  # with it brokers keep nothing in their directories
HTTP_SETTING: Final = "ottla.http.listener"  # of broker 1; the others have the ports after it
_LISTENER: Final = "PLAINTEXT"
# The settings that the cluster gives each broker; all others are the user's.
_OWN_SETTINGS: Final = (
    "node.id",
    "listeners",
    "advertised.listeners",
    "controller.quorum.voters",
    "process.roles",
    "ottla.cluster.id",
    "log.dir",
    "log.dirs",
)

FreePorts = Callable[[int, Sequence[int]], list[int]]  # how many, and which not


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The wishes for a cluster. None stands for the value of the earlier run, or the default.

    `port` is the first broker's, the others follow; 0 stands for any free ports. `racks` are given to brokers
    in turn. `new_cluster_settings` are for a cluster that did not exist before, where `settings` say nothing.
    With `is_secure` clients log in over TLS, brokers have certificates, and rights are checked; a cluster that
    was secured once stays so.
    """

    brokers: int | None = None
    host: str | None = None
    port: int | None = None
    racks: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    has_proxy: bool = False
    new_cluster_settings: Mapping[str, str] = field(default_factory=dict)
    is_secure: bool = False


def plan_cluster(
    former: ClusterState | None, options: ClusterOptions, free_ports: FreePorts, new_cluster_id: str
) -> ClusterState:
    """The cluster to run, with the id of its first run; ClusterError for a cluster that cannot be."""
    given, host = options.settings, options.host
    _refuse_own(given)
    if former is not None and MEMORY_SETTING in given and MEMORY_SETTING not in former.settings:
        raise ClusterError(
            "This directory has a cluster on disk: give a cluster in memory a directory of its own."
        )
    count = options.brokers or (len(former.brokers) if former else DEFAULT_BROKERS)
    if former is None:
        base = ClusterState(
            cluster_id=new_cluster_id,
            host=host or DEFAULT_HOST,
            voters=tuple(range(1, voter_count(count) + 1)),
            brokers=(),
            settings={**replication_settings(count), **options.new_cluster_settings, **given},
        )
        ids = list(range(1, count + 1))
    else:
        base = replace(former, host=host or former.host, settings={**former.settings, **given})
        ids = _grown(former, count)
    is_secure = options.is_secure or base.is_secure
    base = replace(base, brokers=(), has_proxy=options.has_proxy, is_secure=is_secure, supervisor=None)
    return _with_brokers(base, former, ids, options, free_ports)


def plan_broker(state: ClusterState, rack: str | None, free_ports: FreePorts) -> BrokerState:
    """One more broker for a cluster that runs: it holds topics and does not vote."""
    if len(state.brokers) >= MOST_BROKERS:
        raise ClusterError(f"A local cluster has at most {MOST_BROKERS} brokers.")
    node_id = max(each.node_id for each in state.brokers) + 1
    taken = [port for each in state.brokers for port in each.ports]
    count = 2 if state.is_secure else 1
    ports = free_ports(2 * count if state.has_proxy else count, taken)
    return _broker(node_id, rack, ports[:count], ports[-count:])


def _broker(node_id: int, rack: str | None, reached: Sequence[int], own: Sequence[int]) -> BrokerState:
    """A broker that is reached at these ports, and listens on its own: for clients, and in a secured cluster for
    brokers.
    """
    if len(own) == 1:
        return BrokerState(node_id, own[0], reached[0], rack)
    behind = own[1] if own[1] != reached[1] else None
    return BrokerState(node_id, own[0], reached[0], rack, inner_port=reached[1], own_inner_port=behind)


def voter_count(brokers: int) -> int:
    """An even number of voters survives no more than one fewer would; two are no worse than one."""
    return brokers if brokers <= 3 else 3 if brokers == 4 else 5


def replication_settings(brokers: int) -> dict[str, str]:
    """The defaults of new topics: they survive the loss of a broker where there are enough brokers."""
    factor = min(brokers, 3)
    return {"default.replication.factor": str(factor), "min.insync.replicas": str(max(1, factor - 1))}


def broker_settings(data: Path, state: ClusterState, broker: BrokerState) -> dict[str, str]:
    """The settings of `ottla serve` for one broker."""
    voters = [f"{each}@{state.host}:{_inner_port(state.broker(each))}" for each in state.voters]
    own = {
        "node.id": str(broker.node_id),
        "process.roles": "broker,controller" if broker.node_id in state.voters else "broker",
        **_listeners(state.host, broker),
        "controller.quorum.voters": ",".join(voters),
        "ottla.cluster.id": state.cluster_id,
    }
    if HTTP_SETTING in state.settings:
        own[HTTP_SETTING] = _http_address(state.settings[HTTP_SETTING], broker.node_id)
    if MEMORY_SETTING not in state.settings:
        own["log.dirs"] = str(broker_directory(data, broker.node_id))
    return {**state.settings, **own, **({"broker.rack": broker.rack} if broker.rack else {})}


def _listeners(host: str, broker: BrokerState) -> dict[str, str]:
    if broker.inner_port is not None:
        own, reached = broker.own_inner_port or broker.inner_port, (broker.advertised_port, broker.inner_port)
        return {
            "listeners": f"{CLIENT_LISTENER}://{host}:{broker.port},{BROKER_LISTENER}://{host}:{own}",
            "advertised.listeners": f"{CLIENT_LISTENER}://{host}:{reached[0]},{BROKER_LISTENER}://{host}:{reached[1]}",
        }
    return {
        "listeners": f"{_LISTENER}://{host}:{broker.port}",
        "advertised.listeners": f"{_LISTENER}://{host}:{broker.advertised_port}",
    }


def _inner_port(broker: BrokerState) -> int:
    """The port at which other brokers reach one."""
    return broker.advertised_port if broker.inner_port is None else broker.inner_port


def _http_address(first: str, node_id: int) -> str:
    """Where a broker serves metrics: broker 1 at the address of the setting, the others at the ports after it."""
    host, _, port = first.rpartition(":")
    if not port.isdigit() or port == "0":
        return first  # nothing, any free port, or what the broker refuses
    return f"{host}:{int(port) + node_id - 1}"


def broker_directory(data: Path, node_id: int) -> Path:
    return data / f"broker-{node_id}"


def broker_output(data: Path, node_id: int) -> Path:
    return data / f"broker-{node_id}.log"


def supervisor_output(data: Path) -> Path:
    return data / "supervisor.log"


def _with_brokers(
    base: ClusterState,
    former: ClusterState | None,
    ids: Sequence[int],
    options: ClusterOptions,
    free_ports: FreePorts,
) -> ClusterState:
    racks = options.racks
    known = {each.node_id: each for each in former.brokers} if former else {}
    advertised = _advertised_ports(known, ids, options.port, free_ports)
    inner = _inner_ports(known, ids, advertised, free_ports) if base.is_secure else []
    reached = [*advertised, *inner]
    own = free_ports(len(reached), reached) if base.has_proxy else reached
    for place, node_id in enumerate(ids):
        rack = racks[place % len(racks)] if racks else known[node_id].rack if node_id in known else None
        # The ports of all brokers for clients, then those for brokers.
        base = base.with_broker(_broker(node_id, rack, reached[place :: len(ids)], own[place :: len(ids)]))
    return base


def _inner_ports(
    known: dict[int, BrokerState], ids: Sequence[int], advertised: Sequence[int], free_ports: FreePorts
) -> list[int]:
    former = {each: port for each in ids if each in known and (port := known[each].inner_port) is not None}
    kept = {each: port for each, port in former.items() if port not in advertised}
    new = iter(free_ports(len(ids) - len(kept), [*advertised, *kept.values()]))
    return [kept[each] if each in kept else next(new) for each in ids]


def _advertised_ports(
    known: dict[int, BrokerState], ids: Sequence[int], port: int | None, free_ports: FreePorts
) -> list[int]:
    if port is None and not known:
        port = DEFAULT_PORT
    if port:
        if port + len(ids) > 65536:
            raise ClusterError(f"{len(ids)} brokers from port {port} on need ports beyond 65535.")
        return list(range(port, port + len(ids)))
    former = {} if port == 0 else {each: known[each].advertised_port for each in ids if each in known}
    inner = [each.inner_port for each in known.values() if each.inner_port is not None]
    new = iter(free_ports(len(ids) - len(former), [*former.values(), *inner]))
    return [former[each] if each in former else next(new) for each in ids]


def _grown(former: ClusterState, count: int) -> list[int]:
    ids = [each.node_id for each in former.brokers]
    if count < len(ids):
        raise ClusterError(
            f"This cluster has {len(ids)} brokers, and what {count} do not hold would be missing. Start it as it is, and "
            "take one out with: ottla cluster drain ID --remove"
        )
    return ids + list(range(max(ids) + 1, max(ids) + 1 + count - len(ids)))


def _refuse_own(settings: Mapping[str, str]) -> None:
    for name in settings:
        if name in _OWN_SETTINGS:
            raise ClusterError(
                f"{name} cannot be set for all brokers: the cluster gives each broker its own. "
                "Run brokers with settings of their own by: ottla serve"
            )
