"""DescribeAcls, versions 1 to 3, as a function of an image."""

from ottla.controller.acls import found_acls
from ottla.controller.image import ClusterImage
from ottla.errors import KafkaError
from ottla.protocol.messages.acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.security.acl.rules import Acl, Pattern


def describe_acls(image: ClusterImage, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """The ACLs that a filter finds, by resource."""
    try:
        found = sorted(found_acls(image, request).values())
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    by_pattern: dict[Pattern, list[Acl]] = {}
    for acl in found:
        by_pattern.setdefault(acl.pattern, []).append(acl)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(*pattern, [AclDescription(*acl[1:]) for acl in acls])
            for pattern, acls in by_pattern.items()
        ],
    )
