"""Which broker coordinates a consumer group: FindCoordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.client.requests.outcomes import outcome
from ottla.errors import KafkaError
from ottla.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_GROUP: Final = 0


def find_coordinators_request(groups: Sequence[str]) -> FindCoordinatorRequest:
    """Ask for the coordinators of all these groups.

    A broker that knows only versions up to 3 sees the first group.
    """
    return FindCoordinatorRequest(key=groups[0], key_type=_GROUP, coordinator_keys=list(groups))


def found_coordinators(
    response: FindCoordinatorResponse, groups: Sequence[str]
) -> dict[str, int | KafkaError]:
    """The node id of each group's coordinator; up to version 3, of the first group's."""
    if response.coordinators:
        return {
            each.key: outcome(each.error_code, each.node_id, each.error_message)
            for each in response.coordinators
        }
    return {groups[0]: outcome(response.error_code, response.node_id, response.error_message)}
