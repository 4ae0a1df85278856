"""For the tests of applications that use Kafka: brokers inside the test's process, with fault switches.

    import ottla.testing

    def test_orders_are_written() -> None:
        with ottla.testing.broker() as broker:
            run_my_application(broker.bootstrap)
            assert [record.value for record in broker.records("orders")] == [b"one coffee"]

Fixtures for pytest (`ottla_broker`, `ottla_secured_broker`, `ottla_shared_broker`, `ottla_topic`) come with the package; see
docs/testing.md. Nothing is imported before it is used: pytest loads the plugin in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ottla.errors import ErrorCode as ErrorCode
    from ottla.protocol.apis import ApiKey as ApiKey
    from ottla.testing.embedded_broker import EmbeddedBroker as EmbeddedBroker
    from ottla.testing.embedded_cluster import EmbeddedCluster as EmbeddedCluster
    from ottla.testing.faults import Fault as Fault
    from ottla.testing.faults import Faults as Faults

_HOMES = {
    "ApiKey": "ottla.protocol.apis",
    "EmbeddedBroker": "ottla.testing.embedded_broker",
    "EmbeddedCluster": "ottla.testing.embedded_cluster",
    "ErrorCode": "ottla.errors",
    "Fault": "ottla.testing.faults",
    "Faults": "ottla.testing.faults",
}

__all__ = ["ApiKey", "EmbeddedBroker", "EmbeddedCluster", "ErrorCode", "Fault", "Faults", "broker", "cluster"]


def broker(
    data: str | Path | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    port: int = 0,
    users: Mapping[str, str] | None = None,
    tls: bool = False,
) -> EmbeddedBroker:
    """A broker for `with` or `async with`.

    `data` is a directory to keep its data in (without one, they go with it), `settings` are a broker's, with
    Kafka's names, and `port` is one that it must have. With `users`, names and passwords, clients have to log
    in: by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 over SASL_PLAINTEXT. With `tls`, everything is encrypted, with a
    certificate that is made for the broker (`pip install 'ottla[security]'`).
    """
    from ottla.testing.embedded_broker import EmbeddedBroker

    return EmbeddedBroker(data, settings=settings, port=port, users=users, tls=tls)


def cluster(
    brokers: int = 3,
    *,
    settings: Mapping[str, object] | None = None,
    users: Mapping[str, str] | None = None,
    tls: bool = False,
) -> EmbeddedCluster:
    """`brokers` brokers that form a cluster, for `with` or `async with`; topics have a replica on each, three
    at most. With `users`, names and passwords, clients have to log in, and brokers do to each other. With `tls`,
    everything is encrypted.
    """
    from ottla.testing.embedded_cluster import EmbeddedCluster

    return EmbeddedCluster(brokers, settings=settings, users=users, tls=tls)


# Hidden from type checkers, which would take any name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value  # the next access finds it at once
        return value


def __dir__() -> list[str]:
    return __all__
