"""Access control lists as commands: CreateAcls and DeleteAcls, versions 1 to 3 (KIP-140, KIP-290, KIP-373).

An ACL that is there already is created without a record, and the answer is the same. Each creation and each filter
of a request has a result of its own.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from ottla.controller.acl_records import acl_record
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage
from ottla.controller.records import RemoveAccessControlEntryRecord
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
)
from ottla.security.acl.rules import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

# As in Kafka: one decision is one batch of the metadata log.
_MAX_RECORDS: Final = 10_000


def create_acls(image: ClusterImage, request: CreateAclsRequest, new_uuid: Callable[[], UUID]) -> Decision:
    """Add the ACLs that are not there yet."""
    known = set(image.acls.values())
    records: list[Any] = []
    results = []
    for creation in request.creations:
        try:
            acl = _created(creation)
            if len(records) == _MAX_RECORDS:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"One request creates {_MAX_RECORDS} ACLs at most."
                )
        except KafkaError as error:
            results.append(AclCreationResult(error.code, error.message))
            continue
        if acl not in known:
            known.add(acl)
            records.append(acl_record(new_uuid(), acl))
        results.append(AclCreationResult(error_message=None))
    return Decision(records, CreateAclsResponse(results=results))


def _created(creation: AclCreation) -> Acl:
    kind = _number("resource type", ResourceType, creation.resource_type)
    pattern_type = _number("pattern type", PatternType, creation.resource_pattern_type)
    if pattern_type is PatternType.MATCH:
        raise _refused(f"An ACL cannot have the pattern type {pattern_type.name}.")
    operation = _number("operation", Operation, creation.operation)
    permission = _number("permission", Permission, creation.permission_type)
    if not creation.resource_name:
        raise _refused("An ACL needs the name of a resource.")
    if kind is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _refused(f"The only resource of the type CLUSTER is {CLUSTER_NAME}.")
    kind_of_principal, colon, name = creation.principal.partition(":")
    if not (kind_of_principal and colon and name):
        raise _refused(f"The principal '{creation.principal}' is not of the form User:name.")
    pattern = Pattern(kind, creation.resource_name, pattern_type)
    return Acl(pattern, creation.principal, creation.host, operation, permission)


def _number(what: str, kind: Any, number: int) -> Any:
    """The member of an enumeration; KafkaError for a number that has none, or that stands in filters only."""
    if number not in tuple(kind) or number in (kind.UNKNOWN, kind.ANY):
        raise _refused(f"{number} is not the {what} of an ACL.")
    return kind(number)


def _refused(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)


def delete_acls(image: ClusterImage, request: DeleteAclsRequest) -> Decision:
    """Remove the ACLs that a filter finds; one that two filters find is in both results."""
    removed: dict[UUID, Any] = {}
    results = []
    for wanted in request.filters:
        try:
            found = found_acls(image, wanted)
            if len(removed.keys() | found.keys()) > _MAX_RECORDS:
                raise _refused(f"One request deletes {_MAX_RECORDS} ACLs at most.")
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error.code, error.message))
            continue
        removed |= {acl_id: RemoveAccessControlEntryRecord(acl_id) for acl_id in found}
        results.append(
            DeleteAclsFilterResult(error_message=None, matching_acls=[*map(_removed, found.values())])
        )
    return Decision(list(removed.values()), DeleteAclsResponse(filter_results=results))


def _removed(acl: Acl) -> DeleteAclsMatchingAcl:
    kind, name, pattern_type = acl.pattern
    return DeleteAclsMatchingAcl(
        0, None, kind, name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission
    )


def found_acls(image: ClusterImage, wanted: DeleteAclsFilter | DescribeAclsRequest) -> dict[UUID, Acl]:
    """The ACLs that a filter finds; KafkaError for a filter with an unknown number."""
    try:
        looked_for = AclFilter(
            ResourceType(wanted.resource_type_filter),
            wanted.resource_name_filter,
            PatternType(wanted.pattern_type_filter),
            wanted.principal_filter,
            wanted.host_filter,
            Operation(wanted.operation),
            Permission(wanted.permission_type),
        )
    except ValueError as error:
        raise _refused(f"The filter cannot be read: {error}.") from None
    if looked_for.is_unknown:
        raise _refused("The filter has a part of the type UNKNOWN.")
    return {acl_id: acl for acl_id, acl in image.acls.items() if looked_for.matches(acl)}
