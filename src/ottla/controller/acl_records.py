"""Access control lists as records of the metadata log, and back."""

from uuid import UUID

from ottla.controller.records import AccessControlEntryRecord
from ottla.security.acl.rules import Acl, Operation, Pattern, PatternType, Permission, ResourceType


def acl_record(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    """The record that adds an ACL."""
    kind, name, pattern_type = acl.pattern
    return AccessControlEntryRecord(
        acl_id, kind, name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission
    )


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The ACL that a record adds."""
    pattern = Pattern(
        ResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type)
    )
    return Acl(
        pattern,
        record.principal,
        record.host,
        Operation(record.operation),
        Permission(record.permission_type),
    )
