"""A local cluster as a value: which brokers, on which ports, under which settings, in which processes.

`state_file` keeps the value in DIR/cluster.json. The voters are fixed when the cluster is founded; brokers
that are added later hold topics and do not vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path


class ClusterError(Exception):
    """A request that cannot be carried out on this cluster; the message is a sentence for a person."""


class Condition(StrEnum):
    """The condition of a broker's process, as its supervisor knows it."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    KILLED = "killed"
    DIED = "died"  # by itself

    @property
    def has_process(self) -> bool:
        return self in (Condition.STARTING, Condition.RUNNING, Condition.PAUSED)

    @property
    def is_at_work(self) -> bool:
        return self in (Condition.STARTING, Condition.RUNNING)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker. Clients and other brokers reach it at `advertised_port`: its own port, or the proxy's. In a
    secured cluster brokers reach it at `inner_port`: its own port again, or the proxy's in front of `own_inner_port`.
    """

    node_id: int
    port: int
    advertised_port: int
    rack: str | None = None
    condition: Condition = Condition.STOPPED
    pid: int | None = None
    process_started: str | None = None
    exit_status: int | None = None
    inner_port: int | None = None
    own_inner_port: int | None = None

    @property
    def ports(self) -> list[int]:
        """All ports that are taken for it."""
        inner = [port for port in (self.inner_port, self.own_inner_port) if port is not None]
        return sorted({self.port, self.advertised_port, *inner})


@dataclass(frozen=True, slots=True)
class SupervisorState:
    """The process that runs the brokers, and the port and token with which it takes commands."""

    pid: int
    control_port: int
    token: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The plan of a cluster, and the condition of each of its brokers. The files of a secured one are in
    DIR/security.
    """

    cluster_id: str
    host: str
    voters: tuple[int, ...]
    brokers: tuple[BrokerState, ...]
    settings: dict[str, str] = field(default_factory=dict)
    has_proxy: bool = False
    supervisor: SupervisorState | None = None
    is_secure: bool = False

    def broker(self, node_id: int) -> BrokerState:
        for each in self.brokers:
            if each.node_id == node_id:
                return each
        known = ", ".join(str(each.node_id) for each in self.brokers)
        raise ClusterError(f"This cluster has no broker {node_id}: it has {known}.")

    def with_broker(self, broker: BrokerState) -> ClusterState:
        """A copy with one broker changed or added."""
        others = [each for each in self.brokers if each.node_id != broker.node_id]
        return replace(self, brokers=tuple(sorted([*others, broker], key=lambda each: each.node_id)))

    def without_broker(self, node_id: int) -> ClusterState:
        return replace(self, brokers=tuple(each for each in self.brokers if each.node_id != node_id))

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, so that it does not matter which of them are up."""
        return ",".join(f"{self.host}:{each.advertised_port}" for each in self.brokers)

    @property
    def bootstrap_at_work(self) -> str | None:
        """The addresses of the brokers that serve; None if there are none."""
        serving = [each for each in self.brokers if each.condition == Condition.RUNNING]
        return ",".join(f"{self.host}:{each.advertised_port}" for each in serving) or None

    @property
    def missing_voters(self) -> list[int]:
        """The voters whose processes are not at work."""
        return [each for each in self.voters if not self.broker(each).condition.is_at_work]

    @property
    def has_quorum(self) -> bool:
        return len(self.voters) - len(self.missing_voters) > len(self.voters) // 2


def quorum_sentence(state: ClusterState, data: Path) -> str | None:
    """Which voters are missing and what to do about it; None while a majority of the voters is at work."""
    if state.has_quorum:
        return None
    missing, needed = state.missing_voters, len(state.voters) // 2 + 1
    first = state.broker(missing[0])
    verb = "resume" if first.condition == Condition.PAUSED else "start"
    who = f"voter{'s' if len(missing) > 1 else ''} {numbers(missing)} {'are' if len(missing) > 1 else 'is'}"
    return (
        f"The quorum is lost: {who} not at work, and {needed} of {len(state.voters)} must be. Until then no leader is "
        f"elected and no metadata changes. Bring one back with: ottla cluster {verb} {first.node_id} --data {data}"
    )


def numbers(ids: Sequence[int]) -> str:
    """Node ids as a person writes them: 1, 2 and 3."""
    texts = [str(each) for each in ids]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "none"
