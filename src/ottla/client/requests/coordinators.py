"""Which broker coordinates a consumer group, or the transactions of a producer: FindCoordinator."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ottla.client.requests.outcomes import outcome
from ottla.errors import KafkaError
from ottla.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse


class CoordinatorType(IntEnum):
    """What a coordinator's key names: a group, or a transactional id."""

    GROUP = 0
    TRANSACTION = 1


def find_coordinators_request(
    keys: Sequence[str], kind: CoordinatorType = CoordinatorType.GROUP
) -> FindCoordinatorRequest:
    """Ask for the coordinators of all these groups or transactional ids.

    A broker that knows only versions up to 3 sees the first one.
    """
    return FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=list(keys))


def found_coordinators(response: FindCoordinatorResponse, keys: Sequence[str]) -> dict[str, int | KafkaError]:
    """The node id of each key's coordinator; up to version 3, of the first key's."""
    if response.coordinators:
        return {
            each.key: outcome(each.error_code, each.node_id, each.error_message)
            for each in response.coordinators
        }
    return {keys[0]: outcome(response.error_code, response.node_id, response.error_message)}


def coordinator_partition(key: str, partitions_count: int) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` that holds a key, as every broker finds it: by
    Java's `String.hashCode`, without the sign.
    """
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFF_FFFF
    if value == 1 << 31:
        return 0  # Java's `abs` of the least integer counts as 0
    return min(value, (1 << 32) - value) % partitions_count
