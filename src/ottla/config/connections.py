"""The settings of connections."""

from ottla.config.setting import INT_MAX, ConfigType, family, setting


@family
class ConnectionConfig:
    """How many connections a broker keeps, and what each may take."""

    request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 << 20,
        at_least=1,
        doc="The largest request accepted; a connection that announces a larger one is closed.",
    )
    send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes",
        256 << 10,
        at_least=-1,
        doc="The kernel's send buffer of each connection; -1 leaves it to the operating system, which grows it with the "
        "connection's speed: better over long distances, and some 15 % more CPU per byte on a local network.",
    )
    receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes",
        -1,
        at_least=-1,
        doc="The kernel's receive buffer of each connection; -1 leaves it to the operating system, which grows it "
        "with the connection's speed. Kafka's 102400 switches that off.",
    )
    listen_backlog_size: int = setting(
        "socket.listen.backlog.size",
        1024,
        at_least=1,
        doc="How many connections may wait to be accepted; the operating system may cap it. With Kafka's 50 a storm of "
        "connections would make clients wait a second and try again.",
    )
    max_connections: int = setting(
        "max.connections",
        INT_MAX,
        at_least=0,
        dynamic=True,
        doc="How many connections the broker keeps open; beyond that new ones are closed at once.",
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT_MAX,
        at_least=0,
        dynamic=True,
        doc="How many connections one client address may keep open.",
    )
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate",
        INT_MAX,
        at_least=1,
        dynamic=True,
        doc="How many connections per second the broker accepts; more wait to be accepted. The listener of the brokers "
        "among themselves, if there is another one, is not held up.",
    )
    max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        type=ConfigType.LONG,
        doc="A connection without a request for this long is closed; -1 keeps idle connections.",
        at_least=-1,
    )
    response_bytes: int = setting(
        "ottla.connection.response.bytes",
        64 << 20,
        at_least=1,
        doc="Responses that one connection may have waiting to be sent; beyond that no more of its requests are read. "
        "Kafka sends one response at a time; here requests are pipelined, so a slow reader needs a limit.",
    )
    idle_buffer_release_ms: int = setting(
        "ottla.idle.buffer.release.ms",
        10_000,
        type=ConfigType.LONG,
        at_least=0,
        doc="A connection's large receive buffer is given back after this long without use. "
        "Kafka has no such buffer; here it makes busy connections fast and must not cost memory when idle.",
    )
