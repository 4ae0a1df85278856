"""What a batch of `__consumer_offsets` means to the group coordinator that is rebuilt from it."""

from functools import partial

from ottla.group.coordinator import GroupCoordinator
from ottla.model import NO_PRODUCER_ID
from ottla.records.batch import BatchView
from ottla.records.control import marker_of
from ottla.server.coordinators.log_reading import ReplayRecord


def replay_of_groups(machine: GroupCoordinator, batch: BatchView) -> ReplayRecord | None:
    """What takes over the records of a batch; a marker ends a transaction at once, and has no records."""
    if not batch.is_control:
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        return partial(machine.replay, producer_id=producer_id)
    marker = marker_of(batch)
    if marker is not None:
        machine.replay_end_of_transaction(batch.producer_id, is_commit=marker.is_commit)
    return None
