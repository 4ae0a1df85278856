"""GroupService: groups listed, described with their lag, and deleted."""

from __future__ import annotations

from typing import Any

from ottla.client.requests.groups import DEAD, GroupDescription
from ottla.client.requests.outcomes import succeeded
from ottla.gateway.cluster.group_lags import PartitionLag, group_lags
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.grpc.calls import StreamMethod, UnaryMethod
from ottla.gateway.grpc.machine.requests import group_in
from ottla.gateway.grpc.messages import message
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError

_Group, _Member, _Lag, _Place = (
    message(each) for each in ("Group", "Member", "PartitionLag", "TopicPartition")
)
_Listed, _Listing, _Deleted = (
    message(each) for each in ("ListGroupsResponse", "GroupListing", "DeleteGroupResponse")
)


class GroupService:
    """Groups, with the caller's rights."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool

    def methods(self) -> dict[str, UnaryMethod | StreamMethod]:
        return {
            "ListGroups": self._list,
            "DescribeGroup": self._describe,
            "DeleteGroup": self._delete,
        }

    async def _list(self, login: Login | None, request: Any) -> Any:
        async with self._pool.caller(login) as caller:
            listed = await (await caller.clients.admin()).list_groups()
        return _Listed(groups=[_Listing(group_id=each.group_id, state=each.state) for each in listed])

    async def _describe(self, login: Login | None, request: Any) -> Any:
        name = group_in(request)
        async with self._pool.caller(login) as caller:
            admin = await caller.clients.admin()
            group = succeeded(await admin.describe_groups([name]))[name]
            if group.state == DEAD:
                raise HttpError(404, f"there is no consumer group {name[:100]!r}", error_code=40403)
            return _shown(group, await group_lags(admin, group))

    async def _delete(self, login: Login | None, request: Any) -> Any:
        name = group_in(request)
        async with self._pool.caller(login) as caller:
            succeeded(await (await caller.clients.admin()).delete_groups([name]))
        return _Deleted()


def _shown(group: GroupDescription, lags: list[PartitionLag]) -> Any:
    members = [
        _Member(
            member_id=each.member_id,
            client_id=each.client_id,
            client_host=each.client_host,
            partitions=[_Place(**place._asdict()) for place in each.assignment],
        )
        for each in group.members
    ]
    return _Group(
        group_id=group.group_id,
        state=group.state,
        assignor=group.protocol,
        members=members,
        lags=list(map(_lag, lags)),
    )


def _lag(each: PartitionLag) -> Any:
    return _Lag(
        **each.place._asdict(),
        committed_offset=each.current_offset,
        end_offset=each.log_end_offset,
        lag=each.lag,
    )
