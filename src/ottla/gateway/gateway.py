"""The composition root: settings in, a gateway out.

The order of a stop: no new connections; event streams end, subscriptions over gRPC and WebSockets are
told; consumer instances end, with their offsets committed, which also ends the
reads that wait for them; open transactions are aborted; requests under way are answered; the clients are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING

from ottla.client.admin.admin import Admin
from ottla.config import ConfigError, TlsConfig
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.callers import Callers
from ottla.gateway.cluster.certificate_logins import CertificateLogins
from ottla.gateway.cluster.clients import CLIENT_ID
from ottla.gateway.cluster.failures import problem_of
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.console.broker_control import BrokerControl
from ottla.gateway.console.console import Console, ConsoleSources
from ottla.gateway.console.move_planner import MovePlanner
from ottla.gateway.http.description import DescriptionRoutes
from ottla.gateway.http.dispatch import Dispatch
from ottla.gateway.http.machine.certificates import LoginOf, certificate_logins
from ottla.gateway.http.machine.routes import Route, RouteTable
from ottla.gateway.http.server import HttpServer
from ottla.gateway.registry.door import Door
from ottla.gateway.registry.readers import Readers
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.gateway.registry.schema_routes import SchemaRoutes
from ottla.gateway.registry.setting_routes import SettingRoutes
from ottla.gateway.registry.subject_routes import SubjectRoutes
from ottla.gateway.rest.consumers import ConsumerRoutes
from ottla.gateway.rest.events import EventRoutes
from ottla.gateway.rest.instances import Instances
from ottla.gateway.rest.produce import ProduceRoutes
from ottla.gateway.rest.reads import ReadRoutes
from ottla.gateway.rest.topics import TopicRoutes
from ottla.gateway.rest.transactions import TransactionRoutes
from ottla.gateway.rest.v3.cluster import ClusterRoutes
from ottla.gateway.rest.v3.groups import GroupRoutes
from ottla.gateway.rest.v3.place import Places
from ottla.gateway.rest.v3.records import RecordRoutes
from ottla.gateway.rest.v3.topics import TopicRoutesV3
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.gateway.schema_values.encoding import ValueEncoder
from ottla.gateway.websocket.sockets import Sockets
from ottla.model import Address
from ottla.runtime.pem_files import Identity, read_identity
from ottla.runtime.tls_context import server_context
from ottla.security.settings import PLAINTEXT, Security
from ottla.version import __version__

if TYPE_CHECKING:
    from ottla.gateway.grpc.server import GrpcServer

logger = logging.getLogger(__name__)


class Gateway:
    """Serves from `start` to `stop`."""

    def __init__(
        self,
        bootstrap: str,
        security: Security = PLAINTEXT,
        settings: GatewayConfig | None = None,
        control: BrokerControl | None = None,
        moves: MovePlanner | None = None,
    ) -> None:
        self.settings = settings or GatewayConfig()
        self._bootstrap = bootstrap
        self._security = security
        login_of = _certificate_logins(self.settings, security)
        self._callers = Callers(security, self.settings, _tokens(bootstrap, security, self.settings))
        self._pool = ClientPool(bootstrap, self._callers, self.settings)
        self._schemas = SchemaRegistry(bootstrap, security)
        self._readers = Readers(self._schemas, self._pool, self._callers)
        self._decoder = ValueDecoder(self._schemas, self._readers)
        self._instances = Instances(self._pool, self.settings, self._decoder)
        self._sockets = Sockets(self._pool, self.settings, self._decoder, problem_of)
        self._events = EventRoutes(self._pool, self.settings, self._decoder)
        encoder = ValueEncoder(self._schemas, self._readers)
        self._produce = ProduceRoutes(self._pool, self.settings, encoder)
        self._transactions = TransactionRoutes(self._pool, self.settings, self._produce.encoded)
        self._console = self._new_console(control, moves)
        table = RouteTable(self._routes())
        self.routes = table.routes
        dispatch = Dispatch(table, self.settings.allowed_origins, problem_of, login_of)
        self._server = HttpServer(dispatch, self.settings)
        self._grpc = (
            None if self.settings.grpc_listen is None else _grpc_server(self._pool, self.settings, login_of)
        )
        self._sweeper: asyncio.Task[None] | None = None
        self.port = 0
        self.grpc_port = 0

    def _routes(self) -> Iterable[Route]:
        yield from self._produce.routes()
        yield from self._transactions.routes()
        yield from TopicRoutes(self._pool).routes()
        yield from ReadRoutes(self._pool, self.settings, self._decoder).routes()
        yield from self._events.routes()
        yield from ConsumerRoutes(self._instances, self.settings).routes()
        places = Places(self._pool, self.settings)
        yield from ClusterRoutes(places).routes()
        yield from TopicRoutesV3(places).routes()
        yield from GroupRoutes(places).routes()
        yield from RecordRoutes(places).routes()
        yield from self._sockets.routes()
        door = Door(self._schemas, self._readers)
        yield from SubjectRoutes(door).routes()
        yield from SchemaRoutes(door).routes()
        yield from SettingRoutes(door).routes()
        if self._console is not None:
            yield from self._console.routes()
        script = files("ottla.gateway.websocket").joinpath("client.js").read_bytes()
        proto = files("ottla.gateway").joinpath("grpc/proto/ottla/v1/gateway.proto").read_bytes()
        home = "/docs" if self._console is None else "/console"
        yield from DescriptionRoutes(lambda: self.routes, __version__, script, proto, home).routes()

    def _new_console(self, control: BrokerControl | None, moves: MovePlanner | None) -> Console | None:
        if self.settings.console == "off":
            return None
        values = ConsoleSources(self._pool, self._callers, self._events, self._schemas, self._decoder)
        return Console(self._bootstrap, self.settings, values, control, moves)

    async def start(self) -> None:
        """Reach the cluster, then listen. Raises ConnectionError, KafkaError, OSError and ConfigError."""
        address = listen_address(self.settings.listen)
        identity = _identity(self.settings)
        context = None if identity is None else server_context(*identity)
        if self.settings.requires_login is not True:
            timeout_ms = self.settings.cluster_timeout_ms
            async with Admin(
                self._bootstrap, client_id=CLIENT_ID, timeout_ms=timeout_ms, security=self._security
            ):
                pass
        self.port = await self._server.start(address.host, address.port, context)
        try:
            await self._start_grpc(None if identity is None else identity[2])
        except BaseException:
            await self._server.stop(0)
            raise
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def _start_grpc(self, identity: Identity | None) -> None:
        if self._grpc is not None and self.settings.grpc_listen is not None:
            address = listen_address(self.settings.grpc_listen, "grpc.listen")
            self.grpc_port = await self._grpc.start(address, identity)

    async def stop(self) -> None:
        """End everything, in the order that the module's docstring gives."""
        self._server.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        self._events.stop()
        if self._grpc is not None:
            await self._grpc.stop(self.settings.stop_timeout_ms)
        if self._console is not None:
            await self._console.close()
        await self._sockets.close()
        await self._instances.close()
        await self._transactions.close()
        await self._server.stop(self.settings.stop_timeout_ms)
        await self._schemas.close()
        await self._pool.close()

    @property
    def url(self) -> str:
        """The address of this gateway on this machine."""
        scheme = "http" if self.settings.certificate_file is None else "https"
        host = listen_address(self.settings.listen).host or "localhost"
        return f"{scheme}://{Address(host, self.port)}"

    @property
    def grpc_address(self) -> Address | None:
        """Where gRPC is served on this machine; None if it is not."""
        if self.settings.grpc_listen is None:
            return None
        return Address(listen_address(self.settings.grpc_listen).host or "localhost", self.grpc_port)

    @property
    def console_url(self) -> str | None:
        """The address of the console on this machine, if there is one."""
        return None if self._console is None else f"{self.url}/console"

    @property
    def connection_count(self) -> int:
        """How many connections of callers are open."""
        return self._server.connection_count

    @property
    def socket_count(self) -> int:
        """How many WebSockets are open."""
        return len(self._sockets)

    @property
    def stream_count(self) -> int:
        """How many streams of gRPC are open."""
        return 0 if self._grpc is None else self._grpc.stream_count

    @property
    def transaction_count(self) -> int:
        """How many transactions over REST are open."""
        return len(self._transactions)

    @property
    def instance_count(self) -> int:
        """How many consumer instances there are."""
        return len(self._instances)

    async def _sweep(self) -> None:
        settings = self.settings
        idle_ms = min(settings.instance_idle_ms, settings.client_idle_ms, settings.transaction_idle_ms)
        while True:
            await asyncio.sleep(max(idle_ms / 4, 50) / 1000)
            self._instances.sweep()
            self._transactions.sweep()
            self._pool.sweep()
            await self._pool.keep_tokens()
            if self._console is not None:
                self._console.sweep()


def listen_address(text: str, setting: str = "listen") -> Address:
    """The host and the port of `ottla.gateway.listen` or `grpc.listen`. Raises ValueError with a sentence."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(
            f"ottla.gateway.{setting} cannot be '{text}': expected HOST:PORT, such as localhost:8082"
        )
    return Address(host.strip("[]"), int(port))


def _identity(settings: GatewayConfig) -> tuple[Security, TlsConfig, Identity] | None:
    """The gateway's own certificate. Raises ConfigError."""
    if settings.certificate_file is None:
        return None
    own = Security(
        protocol="SSL",
        certificate_file=settings.certificate_file,
        key_file=settings.key_file,
        key_password=settings.key_password,
        ca_file=settings.client_ca_file if settings.client_auth != "none" else None,
    )
    identity = read_identity(own)
    assert identity is not None
    return own, TlsConfig(client_auth=settings.client_auth), identity


def _certificate_logins(settings: GatewayConfig, security: Security) -> LoginOf | None:
    """Who callers with certificates are; None if nobody is asked for one. Raises ConfigError."""
    if settings.client_auth == "none":
        return None
    if not security.uses_sasl:
        raise ConfigError(
            "ottla.gateway.client.auth needs client properties with a login (--config, security.protocol=SASL_SSL or "
            "SASL_PLAINTEXT): callers act by delegation tokens, which the cluster gives only to a user that logs in."
        )
    return certificate_logins(settings.client_principal_rules)


def _tokens(bootstrap: str, security: Security, settings: GatewayConfig) -> CertificateLogins | None:
    if settings.client_auth == "none":
        return None
    idle_ms = settings.client_idle_ms + settings.instance_idle_ms + settings.max_wait_ms
    return CertificateLogins(
        bootstrap,
        security,
        timeout_ms=settings.cluster_timeout_ms,
        idle_ms=idle_ms,
        most=2 * settings.max_callers,  # a login that is in use must keep its token
    )


def _grpc_server(pool: ClientPool, settings: GatewayConfig, login_of: LoginOf | None) -> GrpcServer:
    # Imported here: gRPC is an extra of its own, and most gateways do without it.
    from ottla.gateway.grpc.server import GrpcServer

    return GrpcServer(pool, settings, login_of)


def run(gateway: Gateway, on_ready: Callable[[Gateway], None]) -> None:
    """Run until SIGTERM or SIGINT. Raises what `Gateway.start` raises."""
    asyncio.run(_run(gateway, on_ready))


async def _run(gateway: Gateway, on_ready: Callable[[Gateway], None]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await gateway.start()
    on_ready(gateway)
    await stopping.wait()
    logger.info("stopping")
    await gateway.stop()
