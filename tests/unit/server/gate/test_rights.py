"""Rights follow the ACLs of the newest metadata, by what changed in them."""

from __future__ import annotations

from uuid import UUID

import pytest

from ottla.config import BrokerConfig
from ottla.protocol.apis import ApiKey
from ottla.security.acl.acl_table import AclTable
from ottla.security.acl.checks import CHECKS
from ottla.security.acl.rules import Acl, Operation, Pattern, Permission, ResourceType
from ottla.security.principal import Principal
from ottla.server.gate.rights import Rights
from ottla.server.gate.session import Session

CONFIG = BrokerConfig.from_properties({"authorizer.class.name": "acl", "super.users": "User:admin"})
READS = CHECKS[ApiKey.FETCH][0]


def on(name: str) -> Acl:
    pattern = Pattern(ResourceType.TOPIC, name)
    return Acl(pattern, "User:alice", "*", Operation.READ, Permission.ALLOW)


def session(user: str) -> Session:
    made = Session("SASL_SSL", "10.0.0.7", 4711)
    made.authenticated_as(Principal("User", user))
    return made


def test_every_image_is_answered_by_its_own_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {UUID(int=number): on(f"t{number}") for number in range(3)}
    second = {UUID(int=1): first[UUID(int=1)], UUID(int=9): on("t9")}
    # As after a snapshot: the same ACLs, as other objects.
    third = {acl_id: Acl(*acl) for acl_id, acl in second.items()}
    images, changes = [first], list[tuple[int, int]]()
    whole = AclTable.changed

    def counted(self: AclTable, removed: list[Acl], added: list[Acl]) -> AclTable:
        changes.append((len(removed), len(added)))
        return whole(self, removed, added)

    monkeypatch.setattr(AclTable, "changed", counted)
    rights, alice = Rights(CONFIG.authorisation, lambda: images[-1]), session("alice")

    def readable() -> list[str]:
        return [name for name in ("t0", "t1", "t2", "t9") if rights.permits(alice, READS, name)]

    assert (readable(), rights.version) == (["t0", "t1", "t2"], 1)
    images.append(second)
    assert (readable(), rights.version) == (["t1", "t9"], 2)
    images.append(third)
    assert (readable(), rights.version) == (["t1", "t9"], 3)
    assert changes == [(0, 3), (2, 1), (2, 2)]
    assert rights.permits(session("admin"), READS, "t0")
