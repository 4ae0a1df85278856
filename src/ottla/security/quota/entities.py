"""Quotas in Kafka's terms: an entity (a user, a client id, both, or an address) has values by key.

A part of an entity whose name is None stands for all that have no quota of their own. For a client the most specific
entity decides, in this order:

1. the user and the client id            4. all users and the client id        7. the client id
2. the user and all client ids           5. all users and all client ids       8. all client ids
3. the user                              6. all users

Clients that one entity decides for share a bucket only if they have the named parts in common: a quota of a user is
shared by the user's connections, a quota of all users is one for each user.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
# What is limited for users and client ids, and for addresses.
CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
IP_KEYS: Final = (CONNECTION_CREATION_RATE,)
# The quotas that need not be whole numbers.
FRACTIONAL_KEYS: Final = frozenset({REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
UNITS: Final = {
    PRODUCER_BYTE_RATE: "bytes per second",
    CONSUMER_BYTE_RATE: "bytes per second",
    REQUEST_PERCENTAGE: "percent of a broker's time",
    CONTROLLER_MUTATION_RATE: "partitions per second",
    CONNECTION_CREATION_RATE: "connections per second",
}

# The parts of an entity by type, in the order of their types.
Entity: TypeAlias = tuple[tuple[str, str | None], ...]
ClientQuotas: TypeAlias = Mapping[Entity, Mapping[str, float]]


class Limit(NamedTuple):
    """A quota in force: its rate, and who shares it."""

    owner: tuple[str | None, str | None]
    rate: float


def entity_of(parts: Mapping[str, str | None]) -> Entity:
    """The entity of these parts."""
    return tuple(sorted(parts.items(), key=lambda part: part[0]))


def limit_of(quotas: ClientQuotas, key: str, user: str, client_id: str) -> Limit | None:
    """The quota for a client; None if there is none."""
    for parts, owner in _candidates(user, client_id):
        values = quotas.get(entity_of(parts))
        if values is not None and key in values:
            return Limit(owner, values[key])
    return None


def ip_limit_of(quotas: ClientQuotas, ip: str) -> float | None:
    """The connections per second that an address may make; None if there is no limit.

    `ip` is the text of an address as `plain_ip` writes it.
    """
    for name in (ip, None):
        values = quotas.get(((IP, name),))
        if values is not None and CONNECTION_CREATION_RATE in values:
            return values[CONNECTION_CREATION_RATE]
    return None


def plain_ip(text: str) -> str | None:
    """An address in the one form in which addresses are compared; None for a text that is no address.

    An IPv4 address that a socket for IPv6 shows is the IPv4 address.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _candidates(
    user: str, client_id: str
) -> Iterator[tuple[dict[str, str | None], tuple[str | None, str | None]]]:
    for name in (user, None):
        yield {USER: name, CLIENT_ID: client_id}, (user, client_id)
        yield {USER: name, CLIENT_ID: None}, (user, client_id)
        yield {USER: name}, (user, None)
    yield {CLIENT_ID: client_id}, (None, client_id)
    yield {CLIENT_ID: None}, (None, client_id)
