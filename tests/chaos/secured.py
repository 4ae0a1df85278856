"""A secured cluster for clients under faults: each broker with a certificate of its own, users with passwords, and
no more rights than their work needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.chaos.workload import GROUP
from tests.clusters import ObservedCluster, eventually, logged_in, observed_cluster

import ottla
from ottla import Acl, Operation, Pattern, ScramPassword, succeeded
from ottla.config.properties import render_properties
from ottla.localcluster.plan.security_settings import BROKER, certificate_file, key_file
from ottla.localcluster.security_files import LOCAL_HOSTS, SecurityFiles
from ottla.security.settings import Security

WRITER: Final = "writer"
READER: Final = "reader"
GUEST: Final = "guest"  # whose right comes and goes
USERS: Final = (WRITER, READER, GUEST)
_MECHANISM: Final = "SCRAM-SHA-512"
_IN_FORCE_S: Final = 60.0


class SecuredCluster(ObservedCluster):
    """A cluster with users. Clients are told their new passwords."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.files = SecurityFiles(data)
        self._passwords: dict[str, str] = {}
        self._clients: dict[str, list[Callable[[str, str], None]]] = defaultdict(list)

    def security_of(self, user: str) -> Security:
        return Security(
            protocol="SASL_SSL",
            ca_file=str(self.files.authority),
            sasl_mechanism=_MECHANISM,
            username=user,
            password=self._passwords[user],
        )

    def tell(self, user: str, *clients: Callable[[str, str], None]) -> None:
        """Have these clients told when their user gets another password."""
        self._clients[user] += clients

    def change_password(self, user: str) -> None:
        """Give a user a new password, wait until every broker takes it, and tell the user's clients."""
        password = secrets.token_urlsafe(12)

        async def change(admin: ottla.Admin) -> None:
            succeeded(await admin.alter_users([ScramPassword(user, password, _MECHANISM)]))

        self.as_administrator(change)
        self._passwords[user] = password
        for client in self._clients[user]:
            client(user, password)
        security = self.security_of(user)
        for node_id in self.running:
            eventually(lambda: _gets_in(self.port_of(node_id), security), f"{user} gets in", _IN_FORCE_S)  # noqa: B023

    def give_rights(self, topic: str) -> None:
        """What the work of each user needs."""
        acls = [
            Acl(Pattern.topic(topic), f"User:{WRITER}", "*", Operation.WRITE),
            Acl(Pattern.topic(topic), f"User:{READER}", "*", Operation.READ),
            *(
                Acl(Pattern.group(group), f"User:{READER}", "*", Operation.READ)
                for group in (GROUP, _NO_GROUP)
            ),
        ]

        async def give(admin: ottla.Admin) -> None:
            succeeded(await admin.create_acls(acls))

        self.as_administrator(give)

    def as_administrator(self, work: Callable[[ottla.Admin], Any]) -> None:
        async def session() -> None:
            async with ottla.Admin(self.bootstrap, timeout_ms=60_000, security=self.security) as admin:
                await work(admin)

        asyncio.run(session())


_NO_GROUP: Final = (
    "reader-has-no-group"  # librdkafka asks for the coordinator of a group that it does not use
)


def _gets_in(port: int, security: Security) -> bool:
    with logged_in(port, security):
        return True


def reach_of(cluster: ObservedCluster, user: str) -> Mapping[str, Any]:
    """How a client of librdkafka reaches the cluster as a user."""
    if not isinstance(cluster, SecuredCluster):
        return {"bootstrap.servers": cluster.bootstrap}
    security = cluster.security_of(user)
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": security.protocol,
        "ssl.ca.location": security.ca_file,
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
    }


@contextlib.contextmanager
def secured_cluster(data: Path, brokers: int, settings: Mapping[str, str]) -> Iterator[SecuredCluster]:
    """A secured cluster behind a proxy, with its users, for the length of a block."""
    files = SecurityFiles(data)
    files.make(LOCAL_HOSTS)
    for node_id in range(1, brokers + 1):
        stem = f"{BROKER}-{node_id}"
        files.issue(stem, hosts=LOCAL_HOSTS)
        own = {
            "ottla.ssl.certificate.file": str(certificate_file(files.directory, stem)),
            "ottla.ssl.key.file": str(key_file(files.directory, stem)),
        }
        files.own_properties(node_id).write_text(render_properties(own), encoding="utf-8")
    # Every connection of this machine has one address, and clients whose password was just changed fail for a moment.
    lenient = {"ottla.sasl.max.failed.logins.per.minute": "0"}
    options = {"brokers": brokers, "has_proxy": True, "is_secure": True, "settings": {**settings, **lenient}}
    with observed_cluster(data, **options):
        cluster = SecuredCluster(data)
        for user in USERS:
            cluster.change_password(user)
        yield cluster
