"""Access control lists as an administrator reads and changes them: DescribeAcls, CreateAcls and DeleteAcls 1 to 3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeVar

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import (
    AclCreation,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from ottla.security.acl.rules import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

N = TypeVar("N", bound=IntEnum)

_ACL_FORM: Final = 'Acl(Pattern.topic("orders"), "User:alice", "*", Operation.READ)'
_FILTER_FORM: Final = 'AclFilter(principal="User:alice")'


def acls_to_create(name: str, acls: object) -> list[Acl]:
    """ACLs that can be written to the wire. Raises TypeError and ValueError."""
    given = arguments.items(name, acls, Acl, _ACL_FORM)
    for acl in given:
        each = f"each of {name}"
        if not isinstance(acl.pattern, Pattern):
            raise TypeError(f"the pattern of {each} must be a Pattern, not {acl.pattern!r}")
        _member(f"the resource of {each}", ResourceType, acl.pattern.resource_type)
        _member(f"the pattern type of {each}", PatternType, acl.pattern.pattern_type)
        _member(f"the operation of {each}", Operation, acl.operation)
        _member(f"the permission of {each}", Permission, acl.permission)
        arguments.text(f"the resource name of {each}", acl.pattern.name)
        arguments.text(f"the principal of {each}", acl.principal)
        arguments.text(f"the host of {each}", acl.host)
    return given


def acl_filter(name: str, wanted: object) -> AclFilter:
    """A filter that can be written to the wire. Raises TypeError and ValueError."""
    if not isinstance(wanted, AclFilter):
        raise TypeError(f"{name} must be an {_FILTER_FORM}, not {wanted!r}")
    _member(f"the resource type of {name}", ResourceType, wanted.resource_type)
    _member(f"the pattern type of {name}", PatternType, wanted.pattern_type)
    _member(f"the operation of {name}", Operation, wanted.operation)
    _member(f"the permission of {name}", Permission, wanted.permission)
    for part in (wanted.name, wanted.principal, wanted.host):
        if part is not None:
            arguments.text(f"a part of {name}", part)
    return wanted


def acl_filters(name: str, filters: object) -> list[AclFilter]:
    """Filters that can be written to the wire. Raises TypeError and ValueError."""
    given = arguments.items(name, filters, AclFilter, _FILTER_FORM)
    return [acl_filter(f"each of {name}", each) for each in given]


def _member(name: str, kind: type[N], value: object) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a member of {kind.__name__}, not {value!r}")


def describe_acls_request(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(*wanted)


def described_acls(response: DescribeAclsResponse) -> list[Acl] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, response.error_message)
    return [
        _acl((each.resource_type, each.resource_name, each.pattern_type), acl)
        for each in response.resources
        for acl in each.acls
    ]


def create_acls_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        [AclCreation(*acl.pattern, acl.principal, acl.host, acl.operation, acl.permission) for acl in acls]
    )


def created_acls(response: CreateAclsResponse, wanted: Mapping[Acl, None]) -> dict[Acl, KafkaError | None]:
    """The results stand in the order of the request."""
    return {
        acl: outcome(result.error_code, None, result.error_message)
        for acl, result in zip(wanted, response.results, strict=False)
    }


def delete_acls_request(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    return DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])


def deleted_acls(
    response: DeleteAclsResponse, wanted: Mapping[AclFilter, None]
) -> dict[AclFilter, list[Acl] | KafkaError]:
    """The results stand in the order of the request."""
    return {
        each: outcome(
            result.error_code,
            [
                _acl((acl.resource_type, acl.resource_name, acl.pattern_type), acl)
                for acl in result.matching_acls
                if not acl.error_code
            ],
            result.error_message,
        )
        for each, result in zip(wanted, response.filter_results, strict=False)
    }


def _acl(pattern: tuple[int, str, int], rest: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    kind, name, pattern_type = pattern
    return Acl(
        Pattern(_known(ResourceType, kind), name, _known(PatternType, pattern_type)),
        rest.principal,
        rest.host,
        _known(Operation, rest.operation),
        _known(Permission, rest.permission_type),
    )


def _known(kind: type[N], number: int) -> N:
    """Numbers that newer brokers know and this client does not are UNKNOWN."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
