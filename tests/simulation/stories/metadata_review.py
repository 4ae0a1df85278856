"""What is true of the metadata: one image for each offset, and changes that a controller may decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.image import ClusterImage, PartitionImage, topic_changes
from ottla.model import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable


class MetadataReview:
    """Looks at each image once; `newest` is the one with the highest offset that any node has had."""

    def __init__(self, broken: Callable[[str], None]) -> None:
        self._broken = broken
        self._images: dict[int, ClusterImage] = {}
        self._seen: dict[str, ClusterImage] = {}
        self.newest = ClusterImage("")

    def look(self, host: str, image: ClusterImage) -> None:
        """The image of one node now."""
        if self._seen.get(host) is image:
            return
        self._seen[host] = image
        known = self._images.setdefault(image.last_offset, image)
        if known is not image and known != image:
            self._broken(f"{host} has another image of metadata offset {image.last_offset} than others")
        if image.last_offset > self.newest.last_offset:
            before, self.newest = self.newest, image
            for topic in topic_changes(before, image).changed:
                former = before.topics_by_id.get(topic.topic_id)
                for placed in topic.partitions:
                    was = former.partition(placed.index) if former is not None else None
                    if was is not placed:
                        self._review(f"{topic.name}-{placed.index}", was, placed)

    def _review(self, name: str, was: PartitionImage | None, now: PartitionImage) -> None:
        if not set(now.isr) <= set(now.replicas):
            self._broken(f"{name}: the ISR {now.isr} is not a part of the replicas {now.replicas}")
        # The last member may come back without its disk: then the partition waits for those that have its records.
        if not now.isr and not now.elr and now.last_known_leader == NO_LEADER:
            self._broken(f"{name}: nobody is in sync, and nobody is waited for")
        if now.leader != NO_LEADER and now.leader not in now.isr:
            self._broken(f"{name}: n{now.leader} leads, and the ISR is {now.isr}")
        if was is None or was == now:
            return
        if now.leader_epoch < was.leader_epoch or now.partition_epoch <= was.partition_epoch:
            self._broken(f"{name}: epochs go back from {was} to {now}")
        if now.leader_epoch == was.leader_epoch and now.leader != was.leader:
            self._broken(f"{name}: n{was.leader} and n{now.leader} lead in epoch {now.leader_epoch}")
