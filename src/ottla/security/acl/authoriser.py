"""The authoriser: whether a principal may do something, and by which rule.

Kafka's rules, in this order:
1. a super user may do everything;
2. an ACL that denies decides, however many allow;
3. an ACL that allows decides;
4. where no ACL is about the resource, `allow.everyone.if.no.acl.found` decides; where some are, nothing is allowed
   that none of them allows.

An ACL that allows READ, WRITE, DELETE or ALTER allows DESCRIBE as well, and one that allows ALTER_CONFIGS allows
DESCRIBE_CONFIGS. An ACL that denies implies nothing.

ACLs are found by resource and principal, and decisions are remembered, so a check costs the same with ten ACLs and
with ten thousand. An authoriser never changes: other ACLs make another authoriser, from the difference.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from ottla.security.acl.acl_table import AclTable
from ottla.security.acl.rules import (
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
# Names come from clients: a client that invents a new one with every request must not fill the memory.
_MAX_REMEMBERED: Final = 10_000


class Verdict(NamedTuple):
    """A decision and its reason, as a sentence."""

    is_allowed: bool
    reason: str


class Action(NamedTuple):
    """What somebody wants to do."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


def implies(granted: Operation, wanted: Operation) -> bool:
    """Whether an ACL that allows one operation allows the other."""
    return granted in (wanted, Operation.ALL) or granted in _IMPLYING.get(wanted, ())


class Authoriser:
    """Decides by one set of ACLs. `super_users` are principals in Kafka's form, `User:admin`."""

    def __init__(
        self,
        acls: Iterable[Acl] | AclTable = (),
        super_users: Collection[str] = (),
        *,
        allow_without_acl: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_without_acl = allow_without_acl
        self._acls = acls if isinstance(acls, AclTable) else AclTable(acls)
        self._remembered: dict[Action, bool] = {}
        self._remembered_some: dict[tuple[str, str, Operation, ResourceType], bool] = {}

    def changed(self, removed: Iterable[Acl], added: Iterable[Acl]) -> "Authoriser":
        """The authoriser of the same ACLs without some and with others. It remembers no decision of this one."""
        table = self._acls.changed(removed, added)
        return Authoriser(table, self._super_users, allow_without_acl=self._allow_without_acl)

    def allows(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the action is allowed."""
        action = Action(principal, host, operation, kind, name)
        known = self._remembered.get(action)
        if known is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            known = self._remembered[action] = self.verdict(action).is_allowed
        return known

    def verdict(self, action: Action) -> Verdict:
        """The decision about an action, with its reason."""
        if action.principal in self._super_users:
            return Verdict(True, f"{action.principal} is a super user")
        allowing: Acl | None = None
        for acl in self._about(action):
            if acl.host not in (WILDCARD, action.host):
                continue
            if acl.permission is Permission.DENY:
                if acl.operation in (action.operation, Operation.ALL):
                    return Verdict(False, f"an ACL denies it: {acl}")
            elif implies(acl.operation, action.operation):
                allowing = allowing or acl
        if allowing is not None:
            return Verdict(True, f"an ACL allows it: {allowing}")
        if any(self._acls.about(action.resource_type, action.name)):
            return Verdict(False, "no ACL of this resource allows it")
        if self._allow_without_acl:
            return Verdict(True, "no ACL is about this resource, and allow.everyone.if.no.acl.found is true")
        return Verdict(False, "no ACL is about this resource")

    def allows_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is any resource of this kind, existing or not, on which the operation is allowed."""
        question = principal, host, operation, kind
        if len(self._remembered_some) >= _MAX_REMEMBERED:
            self._remembered_some.clear()
        if question not in self._remembered_some:
            self._remembered_some[question] = self._finds_some(principal, host, operation, kind)
        return self._remembered_some[question]

    def _finds_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Denied everywhere is denied; else a pattern that is allowed counts unless a denied one covers all of it."""
        if principal in self._super_users:
            return True
        mine = [
            acl
            for acl in self._acls.of_kind(kind)
            if acl.principal in (principal, WILDCARD_PRINCIPAL) and acl.host in (WILDCARD, host)
        ]
        denied = [
            acl
            for acl in mine
            if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)
        ]
        if any(acl.pattern.name == WILDCARD and _is_literal(acl) for acl in denied):
            return False
        if self._allow_without_acl:
            return True
        allowed = (
            acl for acl in mine if acl.permission is Permission.ALLOW and implies(acl.operation, operation)
        )
        return any(not _is_covered(acl, denied) for acl in allowed)

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """The operations on a resource that are allowed, one bit for each, as answers have them (KIP-430)."""
        allowed = (each for each in OPERATIONS[kind] if self.allows(principal, host, each, kind, name))
        return sum(1 << operation for operation in allowed)

    def _about(self, action: Action) -> Iterator[Acl]:
        """The ACLs of the resource that name the principal or everybody."""
        for by_principal in self._acls.about(action.resource_type, action.name):
            yield from by_principal.get(action.principal, ())
            if action.principal != WILDCARD_PRINCIPAL:
                yield from by_principal.get(WILDCARD_PRINCIPAL, ())


def _is_literal(acl: Acl) -> bool:
    return acl.pattern.pattern_type is PatternType.LITERAL


def _is_covered(allowed: Acl, denied: Iterable[Acl]) -> bool:
    """Whether everything that an ACL allows is denied by others; one for all names is not, nor is a prefix by a
    literal name.
    """
    if _is_literal(allowed) and allowed.pattern.name == WILDCARD:
        return False
    for other in denied:
        if _is_literal(other):
            if _is_literal(allowed) and other.pattern.name == allowed.pattern.name:
                return True
        elif allowed.pattern.name.startswith(other.pattern.name):
            return True
    return False
