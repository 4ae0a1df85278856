"""The console's routes, put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.callers import Callers
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.console import (
    cluster_actions,
    group_actions,
    move_actions,
    record_actions,
    topic_actions,
)
from ottla.gateway.console.actions import Actions
from ottla.gateway.console.broker_control import BrokerControl
from ottla.gateway.console.brokers import BrokerPages
from ottla.gateway.console.decoding import Decoder
from ottla.gateway.console.door import API, Door, check_own_page, json_answer, own_refusals
from ottla.gateway.console.groups import GroupPages
from ottla.gateway.console.home import HomePage
from ottla.gateway.console.move_planner import MovePlanner
from ottla.gateway.console.page import PageRoutes
from ottla.gateway.console.records import RecordPages
from ottla.gateway.console.rights import RightsPages
from ottla.gateway.console.sampling import Sampler
from ottla.gateway.console.schemas import SchemaPages
from ottla.gateway.console.sessions import Sessions, cookie
from ottla.gateway.console.topics import TopicPages
from ottla.gateway.console.transactions import TransactionPages
from ottla.gateway.http.machine.json_bodies import json_object
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.gateway.rest.events import EventRoutes
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.version import __version__


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """The parts of the gateway that the console shows."""

    pool: ClientPool
    callers: Callers
    events: EventRoutes
    registry: SchemaRegistry
    values: ValueDecoder


class Console:
    """Serves the page and its API from the gateway's clients."""

    def __init__(
        self,
        bootstrap: str,
        settings: GatewayConfig,
        sources: ConsoleSources,
        control: BrokerControl | None = None,
        moves: MovePlanner | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._may_write = settings.console == "write"
        self._is_local = control is not None
        self._sessions = Sessions(sources.pool, sources.callers, settings)
        self._sampler = Sampler(sources.pool)
        self.page = PageRoutes()
        door = Door(sources.pool, self._sessions, bootstrap)
        self._home = HomePage(door, self._sampler, bootstrap)
        planners = {
            **topic_actions.planners(),
            **group_actions.planners(),
            **record_actions.planners(),
            **cluster_actions.planners(control),
            **move_actions.planners(moves),
        }
        self._rooms: tuple[Any, ...] = (
            self.page,
            self._home,
            TopicPages(door, self._sampler),
            RecordPages(door, sources.events, Decoder(sources.values)),
            GroupPages(door, self._sampler),
            BrokerPages(door, control),
            TransactionPages(door),
            SchemaPages(door, sources.registry),
            RightsPages(door),
            Actions(door, planners, may_write=self._may_write),
        )

    def routes(self) -> Iterator[Route]:
        path, tag, problems = f"{API}/session", "console", (400, 401, 403, 413, 415, 422, 500, 503)
        shape = {"type": "object"}
        yield Route(
            "GET", path, self._session, "Who looks, and what the console may do.", tag,
            answer_schema=shape, problems=problems,
        )  # fmt: skip
        yield Route(
            "POST", path, self._log_in, "Log in: a user and a password, or a token.", tag,
            body="required", body_schema=shape, answer_schema=shape, problems=problems,
        )  # fmt: skip
        yield Route("DELETE", path, self._log_out, "Log out.", tag, answer_schema=shape, problems=problems)
        for room in self._rooms:
            yield from room.routes()

    def sweep(self) -> None:
        """Forget sessions that nobody uses."""
        self._sessions.sweep()

    async def close(self) -> None:
        """End the sampling, and what is asked beside the page."""
        await self._home.close()
        await self._sampler.close()

    async def _session(self, request: Request) -> Answer:
        async with own_refusals():
            login = self._sessions.login_of(request)
        facts = {
            "user": None if login is None else login.name,
            "requires_login": self._sessions.requires_login,
            "takes_logins": self._sessions.takes_logins,
            "may_write": self._may_write,
            "is_local": self._is_local,
            "bootstrap": self._bootstrap,
            "version": __version__,
        }
        return json_answer(request, facts)

    async def _log_in(self, request: Request) -> Answer:
        check_own_page(request)
        async with own_refusals():
            login, session_id = await self._sessions.begin(json_object(request.body))
        return json_answer(request, {"user": login.name}, cookie(request, session_id))

    async def _log_out(self, request: Request) -> Answer:
        check_own_page(request)
        self._sessions.end(request)
        return json_answer(request, {"user": None}, cookie(request, "", ends=True))
