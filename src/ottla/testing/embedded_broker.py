"""A real broker, on a real socket, inside the process of a test.

    with ottla.testing.broker() as broker:
        producer = SomeProducer(broker.bootstrap)

Rules
- It has a thread and an event loop of its own: blocking clients, asyncio applications and C libraries can all
  be tested with it, and `with` and `async with` are the same. Its other methods wait a few milliseconds for
  it, and may be called from anywhere.
- Its settings are a broker's, but for what only costs tests time: nothing waits for the disk or for a group's
  late members. And records stay, however old their timestamps say they are.
- Its data lies in a temporary directory, which is removed with the broker, or in a given directory, where it
  stays.
- Clients are imported when they are needed to look into it: a test that does not is the sooner ready.
- With the setting `security.inter.broker.protocol` its listener has that protocol.
- `stop`, `kill` and `start` keep its port and its data, so that clients can find it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.blocking.loop_thread import LoopThread
from ottla.client.calls import arguments
from ottla.config import BrokerConfig
from ottla.errors import KafkaError
from ottla.runtime.runtime import Runtime
from ottla.runtime.unsynced_disk import UnsyncedDisk
from ottla.security.own_certificates import own_certificates
from ottla.security.settings import SaslMechanism, Security
from ottla.server.apis.table import registered
from ottla.server.broker import Broker
from ottla.server.net.listeners import Listeners
from ottla.testing.faults import Faults
from ottla.testing.users import Users

if TYPE_CHECKING:
    from ottla.client.fetching.plan.record_batch import ConsumerRecord
    from ottla.security.acl.rules import Acl
    from ottla.testing import inspection

T = TypeVar("T")

HOST: Final = "127.0.0.1"
# A start takes a tenth of a second; a machine that is busy with other tests may need much more.
_DEADLINE_S: Final = 60.0

_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.enable": "false",
    # Tests have fixed dates. In hours, so that whoever sets minutes or milliseconds is heard.
    "log.retention.hours": "-1",
}


def broker_settings(settings: object) -> dict[str, object]:
    """The settings of a broker that a test gave. Raises TypeError with a sentence."""
    return {} if settings is None else arguments.by_name("settings", settings, lambda _, value: value)


class EmbeddedBroker:
    """Runs from `start`, or the beginning of `with`, to its end. `faults` are its fault switches."""

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        users: Mapping[str, str] | Users | None = None,
        tls: bool = False,
    ) -> None:
        if data is not None and not isinstance(data, str | Path):
            raise TypeError(f"data must be a directory, not {data!r}")
        self.faults = Faults()
        self.port = arguments.whole_number("port", port, most=65535)
        self._given = broker_settings(settings)
        self._users = users if isinstance(users, Users) else Users(users, tls=tls)
        self._data = None if data is None else Path(arguments.text("data", str(data)))
        self._forget: Callable[[], object] | None = None
        self._thread: LoopThread | None = None
        self._broker: Broker | None = None

    # ---- its life

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> EmbeddedBroker:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def start(self) -> None:
        """Start it, and return when clients can come. Raises OSError and KafkaError if it cannot start."""
        if self._thread is not None:
            return
        thread = self._thread = LoopThread("ottla.testing.broker")
        try:
            self._broker = thread.run(self._started, _DEADLINE_S)
        except BaseException:
            self._thread = None
            thread.end()
            raise
        self.port = self._broker.port

    def stop(self) -> None:
        """Stop it as one that is asked to: what is under way is answered, a cluster hands over."""
        self._end(Broker.stop)

    def kill(self) -> None:
        """End it as a killed process ends: connections break, no handover, nothing is tidied up."""
        self._end(Broker.abort)

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it, and remove its data unless it was told where to keep them."""
        try:
            self.stop()
        finally:
            if self._forget is not None:
                self._forget()

    @property
    def is_running(self) -> bool:
        """Whether clients can reach it."""
        return self._broker is not None

    @property
    def bootstrap(self) -> str:
        """The address for clients: host and port."""
        return f"{HOST}:{self.port}"

    def security(self, user: str | None = None, mechanism: SaslMechanism = "SCRAM-SHA-256") -> Security:
        """How a client of one of its `users` reaches it: the argument `security` of Ottla's clients. A broker with TLS
        and without users is reached without a name. `ca_file` in it is for other clients.
        """
        return self._users.security(user, mechanism)

    @property
    def data(self) -> Path:
        """The directory of its data."""
        if self._data is None:
            directory = tempfile.mkdtemp(prefix="ottla-")
            self._data = Path(directory)
            self._forget = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        return self._data

    # ---- what is in it

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, and answer its name. A topic that clients ask for is also created by itself."""
        from ottla.testing import inspection

        wanted = name, partitions, replication_factor, configs or {}
        self._run(partial(inspection.create_topic, self._reached(), *wanted))
        return name

    def allow(self, *acls: Acl) -> None:
        """Add access control lists, as nobody but the broker's own user may at first."""
        from ottla.testing import inspection

        self._run(partial(inspection.add_acls, self._reached(), acls))

    def topics(self) -> list[str]:
        """The names of all topics that are not the broker's own."""
        from ottla.testing import inspection

        return self._run(partial(inspection.topics, self._reached()))

    def records(self, topic: str) -> list[ConsumerRecord]:
        """Every record of a topic, partition after partition, as readers see it now; empty if there is no
        such topic.
        """
        from ottla.testing import inspection

        return self._run(partial(inspection.records, self._reached(), topic))

    def reset(self) -> None:
        """As if it were new: no topics, no groups (but those whose members are still there), no faults."""
        self.faults.clear()
        from ottla.testing import inspection

        self._run(partial(inspection.empty, self._reached()))

    # ---- its transactions

    def time_out(self, transactional_id: str) -> None:
        """Have the coordinator abort an open transaction now, as if its timeout were over; its producer is fenced.

        Raises LookupError if this broker coordinates no open transaction of the id.
        """
        arguments.text("transactional_id", transactional_id)

        async def end() -> bool:
            try:
                return await self._inside.services.transactions.shard_of(transactional_id).time_out(
                    transactional_id
                )
            except KafkaError:
                return False  # another broker coordinates it, or nobody yet

        if not self._run(end):
            raise LookupError(f"there is no open transaction of '{transactional_id}' here")

    @contextlib.contextmanager
    def holding_markers(self) -> Iterator[None]:
        """Let transactions end without markers in the partitions of this broker for the length of a block: readers of
        committed records wait, and so does the producer's next transaction.
        """
        thread, markers = self._running(), self._inside.services.markers
        thread.call(lambda: markers.hold(True))
        try:
            yield
        finally:
            if self._thread is thread:
                thread.call(lambda: markers.hold(False))

    # ---- its connections

    @property
    def connection_count(self) -> int:
        """How many connections are open, those of other brokers included."""
        return self._running().call(lambda: self._listeners.connection_count)

    def drop_connections(self) -> None:
        """Close every connection, as a network that breaks. Clients may come again at once."""
        self._run(partial(self._listeners.drain, 0))

    @contextlib.contextmanager
    def refusing_connections(self) -> Iterator[None]:
        """Drop all connections and refuse new ones for the length of a block, like a port on which no process
        listens.
        """
        thread, listeners = self._running(), self._listeners
        thread.call(listeners.stop_accepting)
        self.drop_connections()
        try:
            yield
        finally:
            if self._thread is thread:
                thread.call(listeners.bind)
                thread.call(listeners.start_accepting)

    # ---- inside

    def look(self, question: Callable[[Broker], T]) -> T:
        """Call a function on the broker's own loop and return its answer."""
        return self._running().call(lambda: question(self._inside))

    @property
    def _inside(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("the broker is not running: use it in `with`, or start it")
        return self._broker

    @property
    def _listeners(self) -> Listeners:
        return self._inside.listeners

    def _reached(self) -> inspection.Reached:
        from ottla.testing import inspection

        return inspection.Reached(self.bootstrap, self._own_security())

    def _own_security(self) -> Security:
        """How the test's own questions reach the first listener: with TLS, by the broker's own certificate."""
        own, config = self._users.own_security, self._config()
        if not config.node.listener.uses_tls:
            return own
        trusted = own_certificates(config.tls)
        login: dict[str, Any] = {
            name: getattr(own, name) for name in ("sasl_mechanism", "username", "password")
        }
        return replace(trusted, protocol="SASL_SSL", **login) if own.uses_sasl else trusted

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the broker is not running: use it in `with`, or start it")
        return self._thread

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._running().run(work, _DEADLINE_S)

    async def _started(self) -> Broker:
        broker = Broker(self._config(), Runtime(disk=UnsyncedDisk()), self.faults.before(registered))
        await broker.start()
        return broker

    def _config(self) -> BrokerConfig:
        given = {**self._given, **self._users.settings(self._given)}
        protocol = given.get("security.inter.broker.protocol", self._users.protocol)
        address = {"listeners": f"{protocol}://{HOST}:{self.port}", "log.dir": str(self.data)}
        texts = {name: _text(value) for name, value in given.items()}
        return BrokerConfig.from_properties({**_SETTINGS, **address, **texts})

    def _end(self, how: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
        thread, broker = self._thread, self._broker
        if thread is None:
            return
        self._thread = self._broker = None
        try:
            if broker is not None:
                thread.run(partial(how, broker), _DEADLINE_S)
        finally:
            thread.end()  # a start that is under way elsewhere is broken off


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
