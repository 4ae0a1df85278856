"""TopicService: topics listed, described, created and deleted."""

from __future__ import annotations

from typing import Any

from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.outcomes import succeeded
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.grpc.calls import StreamMethod, UnaryMethod
from ottla.gateway.grpc.machine.requests import new_topic
from ottla.gateway.grpc.messages import message
from ottla.gateway.http.machine.credentials import Login

_Topic, _Partition = message("Topic"), message("Partition")
_Listed, _Deleted = message("ListTopicsResponse"), message("DeleteTopicResponse")


class TopicService:
    """Topics, with the caller's rights."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool

    def methods(self) -> dict[str, UnaryMethod | StreamMethod]:
        return {
            "ListTopics": self._list,
            "DescribeTopic": self._describe,
            "CreateTopic": self._create,
            "DeleteTopic": self._delete,
        }

    async def _list(self, login: Login | None, request: Any) -> Any:
        async with self._pool.caller(login) as caller:
            admin = await caller.clients.admin()
            topics = await admin.list_topics(include_internal=request.include_internal)
        return _Listed(topics=list(map(_shown, topics)))

    async def _describe(self, login: Login | None, request: Any) -> Any:
        async with self._pool.caller(login) as caller:
            return _shown(await caller.topics.describe(request.name))

    async def _create(self, login: Login | None, request: Any) -> Any:
        topic = new_topic(request)
        async with self._pool.caller(login) as caller:
            created = succeeded(await (await caller.clients.admin()).create_topics([topic]))[topic.name]
        # Its leaders are known a moment later: DescribeTopic tells them.
        partitions = [_Partition(partition=number, leader=-1) for number in range(created.partitions)]
        return _Topic(name=created.name, partitions=partitions)

    async def _delete(self, login: Login | None, request: Any) -> Any:
        async with self._pool.caller(login) as caller:
            await caller.topics.describe(request.name)
            succeeded(await (await caller.clients.admin()).delete_topics([request.name]))
        return _Deleted()


def _shown(topic: TopicInfo) -> Any:
    partitions = [
        _Partition(
            partition=each.index,
            leader=-1 if each.leader is None else each.leader,
            replicas=each.replicas,
            in_sync_replicas=each.isr,
        )
        for each in topic.partitions
    ]
    return _Topic(name=topic.name, partitions=partitions, is_internal=topic.is_internal)
