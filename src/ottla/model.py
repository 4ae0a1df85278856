"""Values that every room shares: a partition, the end of an epoch, an address, and Kafka's numbers for
"none".

Pure, and below the protocol: a room that needs one of these names imports no more than this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

# Kafka writes "none" or "unknown" as -1, on the wire and on disk. Each kind of number has its own name for
# it.
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1  # a leader epoch
NO_TIMESTAMP: Final = -1
NO_NODE: Final = -1  # neither a broker nor a controller
NO_LEADER: Final = NO_NODE
NO_BROKER_EPOCH: Final = -1  # of a broker that is not registered, or that the sender does not know
LEAVING_BROKER_EPOCH: Final = -2  # of a leader that steps down, and holds every committed record
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1  # of a producer without idempotence
NO_GENERATION: Final = -1  # of a consumer outside a group's membership

# Numbers below zero that mean something else.
ACKS_LEADER: Final = 1  # answer a Produce request when the leader has the records
ACKS_ALL: Final = -1  # answer a Produce request when all in-sync replicas have the records
BROKER_DEFAULT: Final = -1  # as many partitions or replicas as the broker's settings say
CONSUMER_REPLICA_ID: Final = -1  # the replica id of a client that is not a broker
ANY_REPLICA_ID: Final = -2  # of a client that asks a replica about its own log, whether or not it leads

_DEFAULT_PORT: Final = 9092


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class EpochEnd(NamedTuple):
    """A leader epoch, and the end offset of its records: one more than the offset of its last record."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The addresses in `text`, separated by commas. Raises ValueError with a sentence that says what is
    wrong.
    """
    addresses = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError("no broker address was given: expected HOST:PORT, for example localhost:9092")
    return addresses


def parse_address(text: str) -> Address:
    """One address. The port may be left out; an IPv6 address with a port stands in brackets."""
    scheme, is_url, _ = text.partition("://")
    if is_url:
        raise ValueError(f'"{text}" is not an address: write HOST:PORT, without "{scheme}://"')
    if text.count(":") > 1 and not text.startswith("["):
        raise ValueError(
            f'"{text}" is not an address: write an IPv6 address in brackets, for example [::1]:9092'
        )
    host, colon, port = _split(text)
    if not host:
        raise ValueError(f'"{text}" is not an address: expected HOST:PORT, for example localhost:9092')
    return Address(host, _port(port, text) if colon else _DEFAULT_PORT)


def _split(text: str) -> tuple[str, str, str]:
    if not text.startswith("["):
        return text.partition(":")
    host, bracket, rest = text[1:].partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        return "", "", ""
    return host, rest[:1], rest[1:]


def _port(text: str, address: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f'"{text}" in "{address}" is not a port: expected a number from 1 to 65535')
    return int(text)
