"""Consumer groups, their members, and their lag."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from ottla.client.requests.groups import DEAD, GroupDescription
from ottla.client.requests.outcomes import succeeded
from ottla.gateway.cluster.group_lags import PartitionLag, group_lags
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.rest.v3.machine import resources
from ottla.gateway.rest.v3.place import CLUSTER, Place, Places, answer

_GROUPS: Final = f"{CLUSTER}/consumer-groups"
_GROUP: Final = f"{_GROUPS}/{{consumer_group_id}}"


class GroupRoutes:
    """Shows groups."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def routes(self) -> tuple[Route, ...]:
        served = (
            (_GROUPS, self._list, "All consumer groups."),
            (_GROUP, self._show, "A consumer group."),
            (f"{_GROUP}/consumers", self._members, "The members of a group."),
            (f"{_GROUP}/lags", self._lags, "The lag of each partition that the group reads."),
            (f"{_GROUP}/lag-summary", self._summary, "The lag of a group in all, and its largest part."),
        )
        return tuple(
            Route(
                "GET",
                path,
                handler,
                summary,
                "v3 groups",
                answer_schema={"type": "object"},
                problems=(403, 404),
            )
            for path, handler, summary in served
        )

    async def _list(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            listed = await place.admin.list_groups()
            described = await place.admin.describe_groups([each.group_id for each in listed])
            found = [each for each in described.values() if isinstance(each, GroupDescription)]
            shown = [resources.group(place.base, place.cluster_id, each) for each in found]
            return answer(resources.listing("ConsumerGroup", f"{place.base}/consumer-groups", shown))

    async def _show(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            return answer(resources.group(place.base, place.cluster_id, await _group(place, request)))

    async def _members(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            group = await _group(place, request)
            shown = [
                resources.member(place.base, place.cluster_id, group.group_id, each) for each in group.members
            ]
            return answer(resources.listing("Consumer", f"{_url(place, group)}/consumers", shown))

    async def _lags(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            group = await _group(place, request)
            shown = [_lag(place, group, each) for each in await group_lags(place.admin, group)]
            return answer(resources.listing("ConsumerLag", f"{_url(place, group)}/lags", shown))

    async def _summary(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            group = await _group(place, request)
            lags = await group_lags(place.admin, group)
            if not lags:
                raise HttpError(404, f"the group {group.group_id!r} has committed no offsets")
            worst = max(lags, key=lambda each: each.lag)
            shown = resources.resource(
                "ConsumerGroupLagSummary",
                f"{_url(place, group)}/lag-summary",
                cluster_id=place.cluster_id,
                consumer_group_id=group.group_id,
                max_lag_consumer_id=worst.member.member_id,
                max_lag_instance_id=worst.member.group_instance_id,
                max_lag_client_id=worst.member.client_id,
                max_lag_topic_name=worst.place.topic,
                max_lag_partition_id=worst.place.partition,
                max_lag=worst.lag,
                total_lag=sum(each.lag for each in lags),
            )
            return answer(shown)


async def _group(place: Place, request: Request) -> GroupDescription:
    """Raises HttpError(404) for a group that does not exist."""
    name = request.params["consumer_group_id"]
    group = succeeded(await place.admin.describe_groups([name]))[name]
    if group.state == DEAD:
        raise HttpError(404, f"there is no consumer group {name[:100]!r}", error_code=40403)
    return group


def _lag(place: Place, group: GroupDescription, each: PartitionLag) -> dict[str, Any]:
    return resources.resource(
        "ConsumerLag",
        f"{_url(place, group)}/lags/{each.place.topic}/partitions/{each.place.partition}",
        cluster_id=place.cluster_id,
        consumer_group_id=group.group_id,
        topic_name=each.place.topic,
        partition_id=each.place.partition,
        consumer_id=each.member.member_id,
        instance_id=each.member.group_instance_id,
        client_id=each.member.client_id,
        current_offset=each.current_offset,
        log_end_offset=each.log_end_offset,
        lag=each.lag,
    )


def _url(place: Place, group: GroupDescription) -> str:
    return f"{place.base}/consumer-groups/{quote(group.group_id, safe='')}"
