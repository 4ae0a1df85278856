"""Access control lists in the metadata: created once, found by filters, removed."""

from typing import Any

import pytest
from tests.unit.controller.cluster import Cluster, topic

from ottla.controller.describe.acls import describe_acls
from ottla.errors import ErrorCode
from ottla.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

READ_ORDERS = AclCreation(2, "orders", 3, "User:alice", "*", 3, 3)
WRITE_ORDERS = AclCreation(2, "orders", 3, "User:alice", "*", 4, 3)
READ_SHOPS = AclCreation(2, "shop-", 4, "User:bob", "10.0.0.1", 3, 3)


def found(wanted: Any) -> list[tuple[str, int]]:
    return [(acl.principal, acl.operation) for acl in wanted.matching_acls]


def test_an_acl_is_created_once() -> None:
    cluster = Cluster()
    created = cluster.commit(CreateAclsRequest([READ_ORDERS, READ_ORDERS]))
    assert [result.error_code for result in created.results] == [0, 0]
    cluster.commit(CreateAclsRequest([READ_ORDERS, WRITE_ORDERS]))
    assert len(cluster.image.acls) == 2


def test_filters_remove_acls_and_tell_which() -> None:
    cluster = Cluster()
    cluster.commit(CreateAclsRequest([READ_ORDERS, WRITE_ORDERS, READ_SHOPS]))
    both, matching = cluster.commit(
        DeleteAclsRequest(
            [
                DeleteAclsFilter(2, "orders", 3, None, None, 1, 1),
                # All that the topic shop-1 is subject to.
                DeleteAclsFilter(2, "shop-1", 2, None, None, 1, 1),
            ]
        )
    ).filter_results
    assert found(both) == [("User:alice", 3), ("User:alice", 4)]
    assert found(matching) == [("User:bob", 3)]
    assert not cluster.image.acls


def test_unchanged_acls_are_the_same_object_in_the_next_image() -> None:
    cluster = Cluster()
    cluster.commit(CreateAclsRequest([READ_ORDERS]))
    before = cluster.image.acls
    cluster.commit(DeleteAclsRequest([DeleteAclsFilter(2, "other", 3, None, None, 1, 1)]))
    cluster.create(topic("unrelated"))
    assert cluster.image.acls is before


@pytest.mark.parametrize(
    ("creation", "words"),
    [
        (AclCreation(1, "orders", 3, "User:a", "*", 3, 3), "1 is not the resource type of an ACL"),
        (AclCreation(99, "orders", 3, "User:a", "*", 3, 3), "99 is not the resource type"),
        (AclCreation(2, "orders", 2, "User:a", "*", 3, 3), "pattern type MATCH"),
        (AclCreation(2, "orders", 3, "User:a", "*", 1, 3), "1 is not the operation"),
        (AclCreation(2, "orders", 3, "User:a", "*", 3, 1), "1 is not the permission"),
        (AclCreation(2, "", 3, "User:a", "*", 3, 3), "needs the name of a resource"),
        (AclCreation(4, "my-cluster", 3, "User:a", "*", 3, 3), "kafka-cluster"),
        (AclCreation(2, "orders", 3, "alice", "*", 3, 3), "not of the form User:name"),
    ],
)
def test_an_acl_that_says_nothing_is_refused_alone(creation: AclCreation, words: str) -> None:
    cluster = Cluster()
    refused, created = cluster.commit(CreateAclsRequest([creation, READ_ORDERS])).results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert words in refused.error_message
    assert not created.error_code


def test_a_filter_with_an_unknown_number_is_refused() -> None:
    cluster = Cluster()
    for wanted in (
        DeleteAclsFilter(2, None, 0, None, None, 1, 1),
        DeleteAclsFilter(50, None, 1, None, None, 1, 1),
    ):
        (result,) = cluster.commit(DeleteAclsRequest([wanted])).filter_results
        assert result.error_code == ErrorCode.INVALID_REQUEST


def test_acls_are_described_by_resource() -> None:
    cluster = Cluster()
    cluster.commit(CreateAclsRequest([READ_SHOPS, WRITE_ORDERS, READ_ORDERS]))
    everything = describe_acls(cluster.image, DescribeAclsRequest(1, None, 1, None, None, 1, 1))
    assert [(each.resource_name, each.pattern_type, len(each.acls)) for each in everything.resources] == [
        ("orders", 3, 2),
        ("shop-", 4, 1),
    ]
    refused = describe_acls(cluster.image, DescribeAclsRequest(0, None, 1, None, None, 1, 1))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
