"""A gateway in this process, in front of a broker, and a caller that speaks plain HTTP to it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from typing import Any

import ottla
from ottla.blocking.loop_thread import LoopThread
from ottla.config.gateway import GatewayConfig
from ottla.gateway.console.move_planner import MovePlanner
from ottla.gateway.gateway import Gateway
from ottla.localcluster.replica_moves import cancel_moves, drain_moves, rebalance_moves
from ottla.security.acl.rules import ResourceType
from ottla.security.settings import PLAINTEXT, Security
from ottla.testing.embedded_broker import EmbeddedBroker

JSON_V2 = "application/vnd.kafka.json.v2+json"
BINARY_V2 = "application/vnd.kafka.binary.v2+json"
V2 = "application/vnd.kafka.v2+json"
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Reply:
    """An answer, as a caller saw it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, int]:
        """The status and the error code."""
        return self.status, self.json["error_code"]


class GatewayPlace:
    """Calls one gateway."""

    def __init__(self, gateway: Gateway, thread: LoopThread) -> None:
        self.gateway = gateway
        self.thread = thread
        self.port = gateway.port

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON_V2,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> Reply:
        """One request on a connection of its own. A body that is not bytes is sent as JSON."""
        sent = {**({"Content-Type": content_type} if body is not None else {}), **(headers or {})}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = (
            HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
            if context is None
            else HTTPSConnection("localhost", self.port, timeout=DEADLINE_S, context=context)
        )
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """A connection for bytes that no library would send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)

    def raw(self, data: bytes) -> bytes:
        """Send bytes, and read until the gateway closes the connection."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_to_end(connection)

    def produce(self, topic: str, *values: Any, partition: int = 0) -> None:
        records = [{"value": value, "partition": partition} for value in values]
        reply = self.call("POST", f"/topics/{topic}", {"records": records})
        assert reply.status == 200, reply.body

    def instance(self, group: str, name: str = "one", **settings: Any) -> str:
        """A new instance that reads JSON from the beginning; returns its path."""
        given = {"name": name, "format": "json", "auto.offset.reset": "earliest", **settings}
        reply = self.call("POST", f"/consumers/{group}", given, content_type=V2)
        assert reply.status == 200, reply.body
        return f"/consumers/{group}/instances/{name}"


@contextmanager
def gateway_place(bootstrap: str, security: Security = PLAINTEXT, **settings: Any) -> Iterator[GatewayPlace]:
    """A gateway on a port of its own, for the length of a block."""
    thread = LoopThread("gateway")
    moves = MovePlanner(drain_moves, rebalance_moves, cancel_moves)
    config = GatewayConfig(**{"listen": "127.0.0.1:0", **settings})
    gateway = Gateway(bootstrap, security, config, moves=moves)
    try:
        thread.run(gateway.start, DEADLINE_S)
        try:
            yield GatewayPlace(gateway, thread)
        finally:
            thread.run(gateway.stop, DEADLINE_S)
    finally:
        thread.end()


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def grant_everything(broker: EmbeddedBroker, user: str, topic: str) -> None:
    """All rights on a topic, and on the group `g`."""

    async def grant() -> None:
        async with ottla.Admin(broker.bootstrap, security=broker.security("root")) as admin:
            resources = ((ResourceType.TOPIC, topic), (ResourceType.GROUP, "g"))
            acls = [
                ottla.Acl(ottla.Pattern(*each), f"User:{user}", "*", ottla.Operation.ALL)
                for each in resources
            ]
            ottla.succeeded(await admin.create_acls(acls))

    asyncio.run(grant())
