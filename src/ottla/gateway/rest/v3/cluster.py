"""Clusters and brokers."""

from __future__ import annotations

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.rest.v3.machine import resources
from ottla.gateway.rest.v3.place import CLUSTER, Places, answer

_ANY = {"type": "object"}


class ClusterRoutes:
    """There is one cluster."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def routes(self) -> tuple[Route, ...]:
        served = (
            ("/v3/clusters", self._clusters, "The one cluster of this gateway."),
            (CLUSTER, self._cluster, "A cluster."),
            (f"{CLUSTER}/brokers", self._brokers, "The brokers of the cluster."),
            (f"{CLUSTER}/brokers/{{broker_id}}", self._broker, "A broker."),
        )
        return tuple(
            Route("GET", path, handler, summary, "v3 cluster", answer_schema=_ANY, problems=(403, 404))
            for path, handler, summary in served
        )

    async def _clusters(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            shown = resources.cluster(place.base, place.cluster_id, place.cluster.controller_id)
            return answer(resources.listing("Cluster", place.base.rpartition("/")[0], [shown]))

    async def _cluster(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            return answer(resources.cluster(place.base, place.cluster_id, place.cluster.controller_id))

    async def _brokers(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            shown = [resources.broker(place.base, place.cluster_id, each) for each in place.cluster.brokers]
            return answer(resources.listing("Broker", f"{place.base}/brokers", shown))

    async def _broker(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            for each in place.cluster.brokers:
                if str(each.node_id) == request.params["broker_id"]:
                    return answer(resources.broker(place.base, place.cluster_id, each))
        raise HttpError(404, f"there is no broker {request.params['broker_id'][:50]!r}")
