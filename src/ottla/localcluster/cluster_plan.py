"""What a local cluster shall be: from what `up` was told, and from what the directory holds of an earlier time.

A cluster that was stopped comes back as it was: same brokers, ports, racks and settings, each unless it is given anew. It may
come back with more brokers, never with fewer: what the missing ones held would be missing.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.localcluster.state import BrokerState, ClusterError, ClusterState, Condition

DEFAULT_BROKERS: Final = 3
DEFAULT_PORT: Final = 9092
DEFAULT_HOST: Final = "127.0.0.1"
MOST_BROKERS: Final = 32  # of one machine
_LISTENER: Final = "PLAINTEXT"
# What the cluster itself must say; the rest is the user's.
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


def plan_cluster(
    former: ClusterState | None,
    *,
    brokers: int | None = None,
    host: str | None = None,
    port: int | None = None,
    racks: Sequence[str] = (),
    settings: dict[str, str] | None = None,
    has_proxy: bool = False,
    free_ports: FreePorts,
) -> ClusterState:
    """The cluster to run; raises ClusterError for what cannot be."""
    given = settings or {}
    _refuse_own(given)
    count = brokers or (len(former.brokers) if former else DEFAULT_BROKERS)
    if former is None:
        base = ClusterState(
            cluster_id=secrets.token_hex(11),
            host=host or DEFAULT_HOST,
            voters=tuple(range(1, voter_count(count) + 1)),
            brokers=(),
            settings={**replication_settings(count), **given},
        )
        ids = list(range(1, count + 1))
    else:
        base = replace(former, host=host or former.host, settings={**former.settings, **given})
        ids = _grown(former, count)
    base = replace(base, brokers=(), has_proxy=has_proxy, supervisor=None)
    return _with_brokers(base, former, ids, port, racks, free_ports)


def plan_broker(state: ClusterState, rack: str | None, free_ports: FreePorts) -> BrokerState:
    """One more broker for a cluster that runs: it holds topics and does not vote."""
    if len(state.brokers) >= MOST_BROKERS:
        raise ClusterError(f"A local cluster has at most {MOST_BROKERS} brokers.")
    node_id = max(each.node_id for each in state.brokers) + 1
    taken = [port for each in state.brokers for port in (each.port, each.advertised_port)]
    ports = free_ports(2 if state.has_proxy else 1, taken)
    return BrokerState(node_id, ports[-1], ports[0], rack)


def voter_count(brokers: int) -> int:
    """An even number of voters survives no more than one fewer would; two are no worse than one."""
    return brokers if brokers <= 3 else 3 if brokers == 4 else 5


def replication_settings(brokers: int) -> dict[str, str]:
    """Topics whose creator says nothing are to survive a broker where that is possible."""
    factor = min(brokers, 3)
    return {"default.replication.factor": str(factor), "min.insync.replicas": str(max(1, factor - 1))}


def broker_settings(data: Path, state: ClusterState, broker: BrokerState) -> dict[str, str]:
    """All that `ottla serve` must be told about one broker."""
    voters = [f"{each}@{state.host}:{state.broker(each).advertised_port}" for each in state.voters]
    own = {
        "node.id": str(broker.node_id),
        "process.roles": "broker,controller" if broker.node_id in state.voters else "broker",
        "listeners": f"{_LISTENER}://{state.host}:{broker.port}",
        "advertised.listeners": f"{_LISTENER}://{state.host}:{broker.advertised_port}",
        "controller.quorum.voters": ",".join(voters),
        "ottla.cluster.id": state.cluster_id,
        "log.dirs": str(broker_directory(data, broker.node_id)),
    }
    return {**state.settings, **own, **({"broker.rack": broker.rack} if broker.rack else {})}


def broker_command(data: Path, state: ClusterState, broker: BrokerState) -> list[str]:
    """The command line of one broker's process."""
    command = [sys.executable, "-m", "ottla.cli.main", "serve"]
    for name, value in broker_settings(data, state, broker).items():
        command += ["--set", f"{name}={value}"]
    return command


def broker_directory(data: Path, node_id: int) -> Path:
    return data / f"broker-{node_id}"


def broker_output(data: Path, node_id: int) -> Path:
    return data / f"broker-{node_id}.log"


def _with_brokers(
    base: ClusterState,
    former: ClusterState | None,
    ids: Sequence[int],
    port: int | None,
    racks: Sequence[str],
    free_ports: FreePorts,
) -> ClusterState:
    known = {each.node_id: each for each in former.brokers} if former else {}
    advertised = _advertised_ports(known, ids, port, free_ports)
    own = free_ports(len(ids), advertised) if base.has_proxy else advertised
    for place, node_id in enumerate(ids):
        rack = racks[place % len(racks)] if racks else known[node_id].rack if node_id in known else None
        broker = BrokerState(node_id, own[place], advertised[place], rack, Condition.STOPPED)
        base = base.with_broker(broker)
    return base


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
    new = iter(free_ports(len(ids) - len(former), list(former.values())))
    return [former[each] if each in former else next(new) for each in ids]


def _grown(former: ClusterState, count: int) -> list[int]:
    ids = [each.node_id for each in former.brokers]
    if count < len(ids):
        raise ClusterError(
            f"This cluster has {len(ids)} brokers, and what {count} do not hold would be missing. Start it as it is, and "
            "take one out with: ottla cluster drain ID --remove"
        )
    return ids + list(range(max(ids) + 1, max(ids) + 1 + count - len(ids)))


def _refuse_own(settings: dict[str, str]) -> None:
    for name in settings:
        if name in _OWN_SETTINGS:
            raise ClusterError(
                f"{name} cannot be set for all brokers: the cluster gives each broker its own. "
                "Run brokers with settings of their own by: ottla serve"
            )
