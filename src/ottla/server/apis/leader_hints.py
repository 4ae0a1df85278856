"""Leader hints (KIP-951): a client that asked the wrong broker gets the leader and its address with the
error.

Hints come from this broker's image; where the image has no leader, there is no hint.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.controller.image import BrokerImage, ClusterImage, TopicImage
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER

MISDIRECTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class CurrentLeader(NamedTuple):
    """The leader of a partition."""

    leader_id: int
    leader_epoch: int


class LeaderAddress(NamedTuple):
    """Where a leader can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(topic: TopicImage | None, index: int) -> CurrentLeader | None:
    """The current leader, if it is known."""
    partition = None if topic is None else topic.partition(index)
    if partition is None or partition.leader == NO_LEADER:
        return None
    return CurrentLeader(partition.leader, partition.leader_epoch)


def addresses(image: ClusterImage, listener_name: str, leader_ids: Iterable[int]) -> list[LeaderAddress]:
    """The addresses of these brokers, as far as they are known."""
    found = []
    for leader_id in sorted(set(leader_ids)):
        broker = image.brokers.get(leader_id)
        address = None if broker is None else _address(broker, listener_name)
        if address is not None:
            found.append(address)
    return found


def _address(broker: BrokerImage, listener_name: str) -> LeaderAddress | None:
    endpoint = broker.endpoint(listener_name)
    if endpoint is None:
        return None
    return LeaderAddress(broker.node_id, endpoint.host, endpoint.port, broker.rack)
