"""Whether a broker that registers still holds what its replicas held (KIP-858, KIP-966). Pure.

A replica in sync, or eligible to lead, is trusted with every committed record. A broker that comes back is
trusted with a replica again by this table, from the top:

    the broker comes back                                           its replica is
    with another log directory than the replica's                   distrusted
    after a clean stop: it knows the epoch of its registration      trusted
    in the same boot of the machine: it says that writes are kept   trusted
    after a loss of power, to a topic that flushes before it        trusted
    acknowledges, or that has no other replica
    after a loss of power, to another topic                         distrusted

A killed process loses nothing that it wrote, because the operating system still has it; a machine that loses
power loses what was not flushed. A distrusted replica leaves ISR and ELR, even as the last member: it must
not lead before it has fetched from a replica that is trusted, or before an operator decides.
"""

from typing import Final

from ottla.config import TopicConfig
from ottla.controller.image import DAMAGED_DIRECTORY, UNKNOWN_DIRECTORY, BrokerImage, PartitionImage
from ottla.protocol.messages.brokers import BrokerRegistrationRequest

# A broker says with this feature that nothing is lost of what was written to its log directory: the machine
# runs without interruption since the last registration. Kafka has no field for that.
KEPT_WRITES_FEATURE: Final = "ottla.kept.writes"


class Return:
    """A broker that registers, compared with its former registration, if there was one."""

    def __init__(self, request: BrokerRegistrationRequest, former: BrokerImage | None) -> None:
        self.node_id: Final = request.broker_id
        self.is_clean: Final = former is not None and former.epoch == request.previous_broker_epoch
        self._keeps_writes = self.is_clean or any(
            feature.name == KEPT_WRITES_FEATURE and feature.max_supported_version > 0
            for feature in request.features
        )
        self._log_dirs = request.log_dirs
        self._former = former

    def has_directory_of(self, partition: PartitionImage) -> bool:
        """Whether the broker came with the directory of its replica, as far as that can be told."""
        known = partition.directory_of(self.node_id)
        if known == DAMAGED_DIRECTORY:
            # Not trusted with anything: the broker looks at such a replica, and says when it is whole.
            return True
        if known != UNKNOWN_DIRECTORY:
            return not self._log_dirs or known in self._log_dirs
        former_dirs = self._former.log_dirs if self._former is not None else ()
        return not former_dirs or not self._log_dirs or not set(former_dirs).isdisjoint(self._log_dirs)

    def is_trusted_with(self, partition: PartitionImage, config: TopicConfig) -> bool:
        """Whether no committed record is missing in the broker's replica, if none was when it stopped."""
        if not self.has_directory_of(partition):
            return False
        flushes = config.flush_messages == 1 or config.ottla_flush_on_acks_all
        return self._keeps_writes or flushes or len(partition.replicas) == 1
