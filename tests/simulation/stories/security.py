"""Stories with security on: clients and brokers log in, an authoriser asks for rights, and an administrator revokes rights
and gives them back, changes passwords, sets quotas and removes them, while clients write and read.

Whether a story is one of these is drawn apart from its other dice, so that all other stories stay as they are. Logins
are by PLAIN, whose tokens have no random part. There is no TLS: the bytes of a story would not depend on its seed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from tests.simulation.stories.clients import TROUBLE
from tests.simulation.stories.fault_kind import FaultTable, Kind
from tests.simulation.stories.settings import HOSTS_PORT, OPEN_PORT
from tests.simulation.world.edge import SimulatedRandomness

import ottla
from ottla import Acl, AclFilter, Operation, Pattern, Permission, QuotaEntity, ScramPassword, Security
from ottla.client.admin import admin as admin_module
from ottla.security.sasl import scram

if TYPE_CHECKING:
    from tests.simulation.stories.losses import Losses
    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node

SECURED_SHARE: Final = 0.2
# Always among the faults of a secured story.
SECURITY_FAULTS: Final = ("revoke", "password", "quota")
ADMINISTRATORS: Final = frozenset({"admin"})
_USERS: Final = {"broker": "Broker-Secret-1", "admin": "Admin-Secret-2"}
_CLIENT: Final = "client"
_PRINCIPAL: Final = f"User:{_CLIENT}"
_ENTITY: Final = QuotaEntity(user=_CLIENT)
# In bytes per second: bursts of a writer exceed them, and nobody is muted for more than some seconds.
_RATES: Final = (3_000.0, 20_000.0)


@cache
def _users_file() -> str:
    """The users that brokers know before there is any metadata."""
    descriptor, path = tempfile.mkstemp(prefix="ottla-simulation-users-")
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{user}={password}\n" for user, password in _USERS.items())
    atexit.register(Path(path).unlink, missing_ok=True)
    return path


class StorySecurity:
    """The security of a story, if it has any."""

    def __init__(self, seed: int) -> None:
        self.is_on = Random(f"{seed} security").random() < SECURED_SHARE
        self._seed = seed
        self._password = "Client-Secret-3"

    def node_settings(self, number: int) -> dict[str, str]:
        """What a node's settings have beside those of other stories."""
        if not self.is_on:
            return {}
        return {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{HOSTS_PORT + number},PLAINTEXT://127.0.0.1:{OPEN_PORT + number}",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "ottla.sasl.users.file": _users_file(),
            "ottla.sasl.inter.broker.username": "broker",
            "ottla.sasl.max.failed.logins.per.minute": "0",
            "authorizer.class.name": "acl",
            "super.users": "User:broker;User:admin",
            "quota.window.num": "1",
            "controller.quota.window.num": "1",
        }

    def options_of(self, client: str) -> dict[str, Any]:
        """The arguments of a client's constructor."""
        if not self.is_on:
            return {}
        is_administrator = client in ADMINISTRATORS
        user = "admin" if is_administrator else _CLIENT
        password = _USERS["admin"] if is_administrator else self._password
        return {
            "security": Security(
                protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username=user, password=password
            )
        }

    @contextmanager
    def reproduced(self) -> Iterator[None]:
        """Salts come from the seed, and the same hash of a password is computed once: a story has hundreds of logins."""
        hashes = lru_cache(maxsize=256)(scram.salted_password)
        salts = SimulatedRandomness(self._seed)
        with (
            patch.object(scram, "salted_password", hashes),
            patch.object(admin_module, "OsRandomness", lambda: salts),
        ):
            yield

    async def begin(self, admin: ottla.Admin) -> None:
        """Make the clients' user and give it, and the pipeline without a login, their rights."""
        if self.is_on:
            ottla.succeeded(await admin.alter_users([self._changed("Client-Secret-3")]))
            ottla.succeeded(await admin.create_acls(_rights()))

    async def change_password(self, admin: ottla.Admin, password: str) -> None:
        """Clients that begin from now on use the new one; those with the old one fail at their next connection."""
        if (await admin.alter_users([self._changed(password)]))[_CLIENT] is None:
            self._password = password

    def is_settled(self, nodes: list[Node]) -> bool:
        """Whether every broker knows that nothing is denied, and nobody has a quota."""
        images = [node.broker.quorum.image for node in nodes if node.broker is not None]
        denied = any(acl.permission is Permission.DENY for image in images for acl in image.acls.values())
        return not denied and not any(image.client_quotas for image in images)

    def _changed(self, password: str) -> ScramPassword:
        return ScramPassword(_CLIENT, password, "SCRAM-SHA-256")


def _rights() -> list[Acl]:
    everything = (Pattern.topic("*"), Pattern.group("*"), Pattern.transactional_id("*"))
    return [
        Acl(pattern, principal, "*", Operation.ALL)
        for principal in (_PRINCIPAL, "User:ANONYMOUS")
        for pattern in everything
    ]


class SecurityFaults(Kind):
    """What an administrator does to rights, passwords and quotas."""

    def __init__(self, story: Story, losses: Losses) -> None:
        super().__init__(story, losses)
        self._passwords = 0

    def table(self) -> FaultTable:
        """Name → how often it is drawn, what it does; nothing where there is no security."""
        if not self._story.security.is_on:
            return {}
        return dict(
            zip(SECURITY_FAULTS, ((4, self.revoke), (2, self.password), (3, self.quota)), strict=True)
        )

    async def revoke(self) -> None:
        """Deny writing to a topic, or reading it, for a while. What is sent meanwhile must not be acknowledged."""
        topic = self._dice.choice(self._story.topics)
        operation = self._dice.choice((Operation.WRITE, Operation.WRITE, Operation.READ))
        denial = Acl(Pattern.topic(topic), _PRINCIPAL, "*", operation, Permission.DENY)
        self._say(f"deny {operation.name} of {topic}")
        self._order(lambda admin: admin.create_acls([denial]))
        await self._sleep(0.2, 0.8)
        before, is_denied = self._lives(), self._is_in_force(denial)
        sent = set(self._story.ledger.sent)
        await self._sleep(0.2, 1.5)
        if (
            operation is Operation.WRITE
            and is_denied
            and self._is_in_force(denial)
            and self._lives() == before
        ):
            self._judge(topic, sent)
        self._say(f"allow {operation.name} of {topic} again")
        self._order(lambda admin: admin.delete_acls([_filter(denial)]))
        await self._sleep(0.1, 0.5)

    def _lives(self) -> list[tuple[int, bool]]:
        return [(node.incarnation, node.is_ready) for node in self._story.nodes]

    def _is_in_force(self, denial: Acl) -> bool:
        """Whether every broker knows of the denial."""
        return all(
            node.is_ready and node.broker is not None and denial in node.broker.quorum.image.acls.values()
            for node in self._story.nodes
        )

    def _judge(self, topic: str, sent_before: set[str]) -> None:
        ledger = self._story.ledger
        ledger.counts["revocations"] += 1
        for name, sent in ledger.sent.items():
            # The pipeline and the writer in sequence do not log in, and have their own rights.
            if name in sent_before or sent.partition[0] != topic or name.startswith(("p0", "q0")):
                continue
            if sent.is_told and not sent.is_failed and sent.offset is not None:
                ledger.broken.append(f"{name} was acknowledged without the right to write to {topic}")

    async def password(self) -> None:
        self._passwords += 1
        password = f"Client-Secret-{10 + self._passwords}"
        self._say("change the clients' password")
        security = self._story.security
        self._order(lambda admin: security.change_password(admin, password))
        await self._sleep(0.3, 1.5)

    async def quota(self) -> None:
        """Limit the clients' bytes, and take the limit back."""
        key = self._dice.choice(("producer_byte_rate", "consumer_byte_rate"))
        rate = self._dice.choice(_RATES)
        self._say(f"limit {key} to {rate:.0f}")
        self._order(lambda admin: admin.alter_quotas({_ENTITY: {key: rate}}))
        await self._sleep(0.5, 2)
        self._order(lambda admin: admin.alter_quotas({_ENTITY: {key: None}}))
        await self._sleep(0.1, 0.5)

    async def set_back(self, admin: ottla.Admin) -> None:
        """All rights are given back, all quotas are gone, and all clients know the password."""
        denials = AclFilter(permission=Permission.DENY)
        await _until_done(lambda: admin.delete_acls([denials]))
        limits = dict.fromkeys(("producer_byte_rate", "consumer_byte_rate"))
        await _until_done(lambda: admin.alter_quotas({_ENTITY: limits}))
        for client in self._story.clients:
            if client is not self._story.administrator:
                client.crash()

    def _order(self, work: Callable[[ottla.Admin], Awaitable[object]]) -> None:
        self._story.administrator.order(work)


def _filter(acl: Acl) -> AclFilter:
    kind, name, pattern_type = acl.pattern
    return AclFilter(kind, name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission)


async def _until_done(ask: Callable[[], Awaitable[dict[Any, Any]]]) -> None:
    while True:
        with suppress(*TROUBLE):
            ottla.succeeded(await ask())
            return
        await asyncio.sleep(0.2)
