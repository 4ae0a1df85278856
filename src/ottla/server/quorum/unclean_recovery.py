"""The active controller's recovery of partitions that no replica is trusted with (`controller.unclean_recovery`).

When every replica of such a partition is there, each is asked for the end of its log, and the most complete one
is elected. A replica that does not answer is asked again with the next look: the partition waits meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.config import BrokerConfig
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.image import ClusterImage
from ottla.controller.unclean_recovery import LogEnd, election_of, most_complete, recoverable
from ottla.errors import KafkaError
from ottla.model import ANY_REPLICA_ID, TopicPartition
from ottla.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.quorum import Quorum

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_ASK_MS: Final = 2_000
_PURPOSE: Final = "recovery"


class UncleanRecovery:
    """Looks for such partitions whenever the metadata has changed, and again while one is left."""

    def __init__(self, config: BrokerConfig, quorum: Quorum, peers: Peers) -> None:
        self._config = config
        self._quorum = quorum
        self._peers = peers

    async def run(self) -> None:
        """Look for partitions to recover until the task is cancelled."""
        looked_at: ClusterImage | None = None
        while True:
            await asyncio.sleep(_LOOK_S)
            image = self._quorum.image
            if image is looked_at:
                continue
            try:
                looked_at = image if await self._look(image) else None
            except NotControllerError:
                return
            except KafkaError as error:
                logger.error("partitions without a trusted replica could not be recovered: %s", error)

    async def _look(self, image: ClusterImage) -> bool:
        """Recover what can be recovered now; whether nothing is left to be tried again."""
        settings = BrokerSettings(image, self._config.node.id, self._config)
        found = dict(recoverable(image, settings))
        ends: dict[TopicPartition, dict[int, LogEnd]] = {partition: {} for partition in found}
        for node_id in sorted({node_id for each in found.values() for node_id in each.replicas}):
            held = [partition for partition, each in found.items() if node_id in each.replicas]
            for partition, end in (await self._ends_on(node_id, held)).items():
                ends[partition][node_id] = end
        for partition, placed in found.items():
            leader = most_complete(placed, ends[partition])
            if leader is not None:
                logger.warning(
                    "%s is led by broker %d from now on, whose log is the most complete of all: %s",
                    partition,
                    leader,
                    ", ".join(
                        f"broker {each} ends at {ends[partition][each].end_offset}"
                        for each in placed.replicas
                    ),
                )
                await self._quorum.decide(election_of(partition, leader))
        return not found

    async def _ends_on(self, node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """The ends of logs on one broker, as far as it tells."""
        topics: dict[str, ListOffsetsTopic] = {}
        for topic, index in partitions:
            wanted = ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP)
            topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(wanted)
        request = ListOffsetsRequest(replica_id=ANY_REPLICA_ID, topics=list(topics.values()))
        try:
            response: ListOffsetsResponse = await self._peers.ask(
                node_id, request, purpose=_PURPOSE, timeout_ms=_ASK_MS
            )
        except OSError as problem:
            logger.info("broker %d does not tell the ends of its logs: %s", node_id, problem)
            return {}
        return {
            TopicPartition(topic.name, each.partition_index): LogEnd(each.leader_epoch, each.offset)
            for topic in response.topics
            for each in topic.partitions
            if not each.error_code
        }
