"""Access control lists in Kafka's terms: one ACL allows or denies one operation on the resources that a pattern
names, to one principal, from one host. The numbers are Kafka's.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from ottla.errors import ErrorCode

# Every name, every host; and every principal of the kind `User`.
WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"

# The one resource of the kind CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(IntEnum):
    """The kinds of resources that rights are about. ANY stands in filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names resources. ANY and MATCH stand in filters only: MATCH finds every ACL that a resource of
    the filter's name is subject to.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operations that rights are about. ANY stands in filters only; ALL is every operation of the resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL allows or denies. ANY stands in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


# The operations that each kind of resource knows.
OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    }
)

# The error that tells a caller that a right on such a resource is missing.
AUTHORIZATION_ERRORS: Final[Mapping[ResourceType, ErrorCode]] = MappingProxyType(
    {
        ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


def _pattern_type(is_prefix: bool) -> PatternType:
    return PatternType.PREFIXED if is_prefix else PatternType.LITERAL


class Pattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    @classmethod
    def topic(cls, name: str, *, is_prefix: bool = False) -> Self:
        """The topic of this name, `*` for all, or those whose names begin so."""
        return cls(ResourceType.TOPIC, name, _pattern_type(is_prefix))

    @classmethod
    def group(cls, name: str, *, is_prefix: bool = False) -> Self:
        """The consumer group of this name, `*` for all, or those whose names begin so."""
        return cls(ResourceType.GROUP, name, _pattern_type(is_prefix))

    @classmethod
    def transactional_id(cls, name: str, *, is_prefix: bool = False) -> Self:
        """The transactional id of this name, `*` for all, or those that begin so."""
        return cls(ResourceType.TRANSACTIONAL_ID, name, _pattern_type(is_prefix))

    @classmethod
    def user(cls, name: str, *, is_prefix: bool = False) -> Self:
        """The user of this name, with or without `User:`, `*` for all, or those whose names begin so."""
        is_whole = not name or name == "*" or ":" in name
        return cls(ResourceType.USER, name if is_whole else f"User:{name}", _pattern_type(is_prefix))

    @classmethod
    def cluster(cls) -> Self:
        """The cluster."""
        return cls(ResourceType.CLUSTER, CLUSTER_NAME)

    def covers(self, name: str) -> bool:
        """Whether a resource of this name, of the pattern's kind, is among them."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def __str__(self) -> str:
        kind, prefix = self.resource_type.name.lower(), self.pattern_type is PatternType.PREFIXED
        return f"{kind} {self.name}{' (prefix)' if prefix else ''}"


class Acl(NamedTuple):
    """One access control list entry."""

    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission = Permission.ALLOW

    def __str__(self) -> str:
        host = "" if self.host == WILDCARD else f" from {self.host}"
        verb = "may" if self.permission is Permission.ALLOW else "must not"
        return f"{self.principal} {verb} {self.operation.name.lower()} {self.pattern}{host}"


class AclFilter(NamedTuple):
    """Finds ACLs; None and ANY stand for everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether a part has a number that Kafka does not define: such a filter is refused."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is one of those that the filter looks for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.pattern.resource_type)
            and self._finds_name(acl.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _finds_name(self, pattern: Pattern) -> bool:
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or pattern.covers(self.name)
        return self.pattern_type in (PatternType.ANY, pattern.pattern_type) and self.name in (
            None,
            pattern.name,
        )
