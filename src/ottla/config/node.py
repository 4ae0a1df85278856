"""The settings that say which node this is: its id, its addresses, its roles, and the cluster that it belongs
to.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.config.listeners import VOTERS, Listener, Voter, parse_listener, parse_voters
from ottla.config.setting import ConfigError, ConfigType, family, setting

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@family
class NodeConfig:
    """Which node this is, where it listens, and what it does in which cluster."""

    id: int = setting(
        "node.id", 1, at_least=0, doc="The number of this node; each node of a cluster has its own."
    )
    rack: str | None = setting(
        "broker.rack",
        None,
        type=ConfigType.STRING,
        doc="The rack or zone of this broker; replicas are spread over racks.",
    )
    listeners: str = setting(
        "listeners",
        "PLAINTEXT://localhost:9092",
        doc="Where the broker listens, as PLAINTEXT://host:port. Without a host it listens on every interface.",
    )
    advertised_listeners: str | None = setting(
        "advertised.listeners",
        None,
        type=ConfigType.STRING,
        doc="The address that the broker gives to clients; if not set, the one in listeners.",
    )
    process_roles: tuple[str, ...] = setting(
        "process.roles",
        (BROKER, CONTROLLER),
        choices=(BROKER, CONTROLLER),
        doc="The roles of this node: 'broker' holds topics and serves clients, 'controller' votes in the metadata quorum.",
    )
    quorum_voters: tuple[str, ...] = setting(
        VOTERS,
        (),
        type=ConfigType.LIST,
        doc="The nodes that vote in the metadata quorum, as id@host:port with commas between, the same on all nodes; "
        "a node's address here is the one it advertises. Not set: this node alone is the quorum.",
    )
    cluster_id: str | None = setting(
        "ottla.cluster.id",
        None,
        type=ConfigType.STRING,
        doc="The id of the cluster, written to the data directory when that is first used; not set: made up by a node that "
        "is alone, and derived from controller.quorum.voters otherwise. Kafka formats directories with a tool of its own.",
    )

    @property
    def listener(self) -> Listener:
        """Where to listen."""
        return parse_listener("listeners", self.listeners)

    @property
    def advertised_listener(self) -> Listener:
        """The addresses for clients. The server fills in an empty host, and port 0."""
        if self.advertised_listeners is None:
            return self.listener
        return parse_listener("advertised.listeners", self.advertised_listeners)

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The voters of the metadata quorum in the order of their ids; none if this node alone is the
        quorum.
        """
        return parse_voters(self.quorum_voters)

    @property
    def is_broker(self) -> bool:
        """Whether this node holds topics and serves clients."""
        return BROKER in self.process_roles

    @property
    def is_voter(self) -> bool:
        """Whether this node votes in the metadata quorum."""
        return CONTROLLER in self.process_roles

    def refuse_addresses(self) -> None:
        """Raise ConfigError if the node could not listen, or clients could not reach it."""
        _ = self.listener
        host = self.advertised_listener.host
        if host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"Clients cannot connect to {host}: set advertised.listeners to the address "
                "by which they reach this broker, for example PLAINTEXT://broker.example.org:9092."
            )

    def refuse_role(self) -> None:
        """Raise ConfigError if a node of these roles has no place in its quorum or its cluster."""
        _refuse_roles(self.id, self.process_roles, self.voters)
        if self.cluster_id is not None and _CLUSTER_ID.fullmatch(self.cluster_id) is None:
            raise ConfigError(
                f"ottla.cluster.id cannot be '{self.cluster_id}': it must be 1 to 64 letters, digits, '-' and '_'."
            )


def _refuse_roles(node_id: int, roles: Sequence[str], voters: Sequence[Voter]) -> None:
    if not roles:
        raise ConfigError("process.roles cannot be empty: it must be broker, controller, or both.")
    is_voter = any(voter.node_id == node_id for voter in voters)
    if CONTROLLER not in roles and not voters:
        raise ConfigError(
            f"Node {node_id} is only a broker: {VOTERS} must name the controllers, for example 1@localhost:9092."
        )
    if CONTROLLER in roles and voters and not is_voter:
        raise ConfigError(
            f"Node {node_id} is a controller and not in {VOTERS}: add it there, or set process.roles to broker."
        )
    if CONTROLLER not in roles and is_voter:
        raise ConfigError(
            f"Node {node_id} is in {VOTERS} and not a controller: add controller to process.roles, or take it out there."
        )
