"""The settings that say which node this is: its id, its addresses, its roles, and the cluster that it belongs
to.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla.config.listeners import (
    PROTOCOL_MAP,
    PROTOCOL_NUMBERS,
    VOTERS,
    Listener,
    Voter,
    parse_listeners,
    parse_protocols,
    parse_voters,
)
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
        doc="Where the broker listens, as NAME://host:port with commas between. A name is a security protocol, or stands in "
        "listener.security.protocol.map. Without a host it listens on every interface.",
    )
    advertised_listeners: str | None = setting(
        "advertised.listeners",
        None,
        type=ConfigType.STRING,
        doc="The addresses that the broker gives to clients, by the names in listeners; for a name that is not here, the "
        "address in listeners.",
    )
    protocol_map: tuple[str, ...] = setting(
        PROTOCOL_MAP,
        tuple(f"{name}:{name}" for name in PROTOCOL_NUMBERS),
        doc="The security protocol of each listener name, as NAME:PROTOCOL with commas between: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL. Several names may have the same protocol.",
    )
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name",
        None,
        type=ConfigType.STRING,
        doc="The listener by which brokers reach each other, the same on all brokers; if not set, the first in listeners "
        "that has the security.inter.broker.protocol.",
    )
    inter_broker_protocol: str | None = setting(
        "security.inter.broker.protocol",
        None,
        type=ConfigType.STRING,
        choices=tuple(PROTOCOL_NUMBERS),
        doc="The security protocol that brokers use among themselves where inter.broker.listener.name is not set; if this "
        "is not set either, that of the first listener.",
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        (),
        type=ConfigType.LIST,
        doc="The listeners for the metadata quorum alone, to which controller.quorum.voters point: clients are not told of "
        "them. Not set: the quorum uses the brokers' listener. The protocol is that of the brokers' listener.",
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
    standby: bool = setting(
        "ottla.controller.standby",
        False,
        doc="Whether this node is a controller that is not in controller.quorum.voters: it follows the quorum, and votes "
        "once it is added with ottla cluster voters. Kafka knows such nodes by controller.quorum.bootstrap.servers.",
    )
    cluster_id: str | None = setting(
        "ottla.cluster.id",
        None,
        type=ConfigType.STRING,
        doc="The id of the cluster, written to the data directory when that is first used; not set: made up by a node that "
        "is alone, and derived from controller.quorum.voters otherwise. Kafka formats directories with a tool of its own.",
    )

    @property
    def bound_listeners(self) -> tuple[Listener, ...]:
        """Where to listen, in the order of the setting."""
        return parse_listeners("listeners", self.listeners, parse_protocols(self.protocol_map))

    @property
    def listener(self) -> Listener:
        """The listener that is named first."""
        return self.bound_listeners[0]

    @property
    def advertised(self) -> tuple[Listener, ...]:
        """The addresses for clients and brokers. The server fills in an empty host, and port 0."""
        for_quorum = {name.upper() for name in self.controller_listener_names} if self.is_broker else set()
        given = (
            {} if self.advertised_listeners is None else self._advertised_by_name(self.advertised_listeners)
        )
        bound = [each for each in self.bound_listeners if each.name not in for_quorum]
        return tuple(given.get(each.name, each) for each in bound)

    @property
    def advertised_listener(self) -> Listener:
        """The address by which other brokers reach this one."""
        advertised = self.advertised
        if not advertised:
            raise ConfigError(
                "listeners has only listeners for the quorum: a broker needs one more for clients."
            )
        if self.inter_broker_listener_name is not None:
            name = self.inter_broker_listener_name.upper()
            found = next((each for each in advertised if each.name == name), None)
        elif self.inter_broker_protocol is not None:
            found = next((each for each in advertised if each.protocol == self.inter_broker_protocol), None)
        else:
            found = advertised[0]
        if found is None:
            raise ConfigError(
                "inter.broker.listener.name or security.inter.broker.protocol fits none of listeners: "
                "brokers could not reach each other."
            )
        return found

    def advertised_name(self, name: str) -> str:
        """The listener whose addresses a client is told that came in through the listener `name`."""
        return name if any(each.name == name for each in self.advertised) else self.advertised_listener.name

    def _advertised_by_name(self, text: str) -> dict[str, Listener]:
        protocols = {each.name: each.protocol for each in self.bound_listeners}
        given = {}
        for each in text.split(","):
            name = each.strip().partition("://")[0].upper()
            if "://" in each and name not in protocols:
                raise ConfigError(f"advertised.listeners names {name}, which is not in listeners.")
            given[name] = parse_listeners("advertised.listeners", each, protocols)[0]
        return given

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
        for each in self.advertised:
            if each.host in ("0.0.0.0", "::"):
                raise ConfigError(
                    f"Clients cannot connect to {each.host}: set advertised.listeners to the address "
                    f"by which they reach this broker, for example {each.name}://broker.example.org:9092."
                )
        protocol, protocols = self.advertised_listener.protocol, parse_protocols(self.protocol_map)
        for name in self.controller_listener_names:
            if protocols.get(name.upper()) != protocol:
                raise ConfigError(
                    f"The listener {name} for the quorum must have the protocol of the brokers' listener: "
                    f"add {name}:{protocol} to {PROTOCOL_MAP}."
                )

    def refuse_role(self) -> None:
        """Raise ConfigError if a node of these roles has no place in its quorum or its cluster."""
        _refuse_roles(self.id, self.process_roles, self.voters, self.standby)
        if self.cluster_id is not None and _CLUSTER_ID.fullmatch(self.cluster_id) is None:
            raise ConfigError(
                f"ottla.cluster.id cannot be '{self.cluster_id}': it must be 1 to 64 letters, digits, '-' and '_'."
            )


def _refuse_roles(node_id: int, roles: Sequence[str], voters: Sequence[Voter], is_standby: bool) -> None:
    if not roles:
        raise ConfigError("process.roles cannot be empty: it must be broker, controller, or both.")
    is_voter = any(voter.node_id == node_id for voter in voters)
    if CONTROLLER not in roles and not voters:
        raise ConfigError(
            f"Node {node_id} is only a broker: {VOTERS} must name the controllers, for example 1@localhost:9092."
        )
    if CONTROLLER in roles and voters and not is_voter and not is_standby:
        raise ConfigError(
            f"Node {node_id} is a controller and not in {VOTERS}: add it there, or set process.roles to broker."
        )
    if is_standby and (CONTROLLER not in roles or is_voter or not voters):
        raise ConfigError(
            f"Node {node_id} cannot be an ottla.controller.standby: it must be a controller that is not in {VOTERS}."
        )
    if CONTROLLER not in roles and is_voter:
        raise ConfigError(
            f"Node {node_id} is in {VOTERS} and not a controller: add controller to process.roles, or take it out there."
        )
