"""Which cluster a request names, and the links of its resources. A gateway has one cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from ottla.client.admin.admin import Admin
from ottla.client.requests.brokers import ClusterDescription
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.message import Answer, Request

CLUSTER: Final = "/v3/clusters/{cluster_id}"


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster of a request, as its caller sees it."""

    caller: Caller
    admin: Admin
    cluster: ClusterDescription
    base: str  # the address of the cluster as a resource

    @property
    def cluster_id(self) -> str:
        return self.cluster.cluster_id


class Places:
    """Finds the cluster that a request names."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig) -> None:
        self._pool = pool
        self._settings = settings

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[Place]:
        """Raises HttpError(404) if the path names another cluster."""
        async with self._pool.caller(request.login) as caller:
            admin = await caller.clients.admin()
            cluster = await admin.describe_cluster()
            named = request.params.get("cluster_id", cluster.cluster_id)
            if named != cluster.cluster_id:
                raise HttpError(
                    404, f"this gateway serves the cluster {cluster.cluster_id}, and not {named[:100]!r}"
                )
            root = self._settings.advertised_url or request.base_url
            yield Place(caller, admin, cluster, f"{root}/v3/clusters/{quote(cluster.cluster_id, safe='')}")


def answer(value: Any, status: int = 200) -> Answer:
    return Answer(status, to_json(value))
