"""The gateway about itself: /openapi.json, /docs, and / for load balancers that want to know whether it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.gateway.http.machine.docs_page import CONTENT_POLICY, docs_page
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.openapi import openapi
from ottla.gateway.http.machine.routes import Route

_HTML = "text/html"
_JAVASCRIPT = "text/javascript"
_TEXT = "text/plain"


class DescriptionRoutes:
    """Describes the routes that `listed` returns; they are all known only when the table is made.

    `proto` is the declaration of gRPC's services, for those who generate clients; browsers go from / to `home`.
    """

    def __init__(
        self,
        listed: Callable[[], Sequence[Route]],
        version: str,
        client_script: bytes,
        proto: bytes,
        home: str = "/docs",
    ) -> None:
        self._listed = listed
        self._version = version
        self._client_script = client_script
        self._proto = proto
        self._home = home

    def routes(self) -> tuple[Route, ...]:
        about = "about"
        return (
            Route(
                "GET",
                "/",
                self._root,
                "The gateway's version: it is there; browsers go to the console.",
                about,
                gives=(JSON, _HTML),
                problems=(302,),
            ),
            Route("GET", "/openapi.json", self._openapi, "This description, for programs.", about),
            Route("GET", "/docs", self._docs, "This description, for people.", about, gives=(_HTML,)),
            Route(
                "GET",
                "/client.js",
                self._script,
                "The WebSocket client, for pages.",
                about,
                gives=(_JAVASCRIPT,),
            ),
            Route(
                "GET",
                "/ottla/v1/gateway.proto",
                self._proto_text,
                "The services of gRPC, for protoc.",
                about,
                gives=(_TEXT,),
            ),
        )

    async def _root(self, request: Request) -> Answer:
        if request.accept == _HTML:
            return Answer(302, headers={"Location": self._home})
        return Answer(200, to_json({"ottla": self._version, "docs": "/docs"}))

    async def _openapi(self, request: Request) -> Answer:
        return Answer(200, to_json(openapi(self._listed(), self._version)), JSON)

    async def _docs(self, request: Request) -> Answer:
        page = docs_page(self._listed(), self._version).encode()
        return Answer(200, page, f"{_HTML}; charset=utf-8", {"Content-Security-Policy": CONTENT_POLICY})

    async def _script(self, request: Request) -> Answer:
        return Answer(200, self._client_script, f"{_JAVASCRIPT}; charset=utf-8")

    async def _proto_text(self, request: Request) -> Answer:
        return Answer(200, self._proto, f"{_TEXT}; charset=utf-8")
