"""The listener of gRPC: TLS, health, reflection, start and stop. It runs in the gateway's event loop."""

from __future__ import annotations

from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection

from ottla.config import ConfigError
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.grpc.calls import Calls
from ottla.gateway.grpc.consuming import ConsumerService
from ottla.gateway.grpc.groups import GroupService
from ottla.gateway.grpc.messages import PACKAGE, POOL
from ottla.gateway.grpc.producing import ProducerService
from ottla.gateway.grpc.topics import TopicService
from ottla.gateway.http.machine.certificates import LoginOf
from ottla.model import Address
from ottla.runtime.pem_files import Identity, read_trusted
from ottla.security.settings import Security

# A response may have a hundred records, and each as many bytes as a topic allows.
_SENT_BYTES: Final = -1
_HEAD_BYTES: Final = 16 << 10


class GrpcServer:
    """Serves from `start` to `stop`."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig, certificate_login: LoginOf | None) -> None:
        self._settings = settings
        self._calls = Calls(settings.max_streams, certificate_login)
        self._consumers = ConsumerService(pool, settings)
        self._services = {
            "ProducerService": ProducerService(pool).methods(),
            "ConsumerService": self._consumers.methods(),
            "TopicService": TopicService(pool).methods(),
            "GroupService": GroupService(pool).methods(),
        }
        self._health: Any = None
        self._server: Any = None

    @property
    def stream_count(self) -> int:
        """How many streams are open."""
        return self._calls.stream_count

    async def start(self, address: Address, identity: Identity | None) -> int:
        """Listen, and return the port. Raises OSError and ConfigError."""
        credentials = None if identity is None else _credentials(identity, self._settings)
        server = grpc.aio.server(
            options=self._options(), maximum_concurrent_rpcs=self._settings.max_connections
        )
        for name, methods in self._services.items():
            server.add_generic_rpc_handlers((self._calls.handlers(name, methods),))
        names = [f"{PACKAGE}.{name}" for name in self._services]
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection([*names, HEALTH, reflection.SERVICE_NAME], server, pool=POOL)
        port = _bound(server, address, credentials)
        await server.start()
        for name in ("", *names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._server = server
        return port

    async def stop(self, timeout_ms: float) -> None:
        """Tell the subscriptions, and wait for the calls under way."""
        if self._server is None:
            return
        self._consumers.stop()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(timeout_ms / 1000)
        await self._consumers.closed()

    def _options(self) -> list[tuple[str, int]]:
        settings = self._settings
        return [
            ("grpc.max_receive_message_length", settings.max_body_bytes),
            ("grpc.max_send_message_length", _SENT_BYTES),
            ("grpc.max_metadata_size", _HEAD_BYTES),
            ("grpc.keepalive_time_ms", settings.ping_interval_ms),
            ("grpc.keepalive_timeout_ms", settings.send_timeout_ms),
            # A caller may ask whether the gateway is there, but not all the time.
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.so_reuseport", 0),
        ]


def _bound(server: Any, address: Address, credentials: Any) -> int:
    where = str(address) if address.host else f"[::]:{address.port}"
    try:
        if credentials is None:
            port = server.add_insecure_port(where)
        else:
            port = server.add_secure_port(where, credentials)
    except RuntimeError as error:
        raise OSError(f"the address {where} cannot be used for gRPC: choose another with --grpc") from error
    return int(port)


def _credentials(identity: Identity, settings: GatewayConfig) -> Any:
    if identity.password:
        raise ConfigError(
            "gRPC cannot read an encrypted key: give ottla.gateway.key.file a key without a password."
        )
    pair = (identity.key.text.encode(), identity.chain.text.encode())
    if settings.client_auth != "required":
        return grpc.ssl_server_credentials([pair])
    trusted = read_trusted(Security(protocol="SSL", ca_file=settings.client_ca_file))
    assert trusted is not None, "refused without its file"
    return grpc.ssl_server_credentials([pair], trusted.text.encode(), require_client_auth=True)
