"""ACLs in Kafka's terms: patterns cover names, filters find ACLs."""

import pytest

from ottla.security.acl.rules import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

ORDERS = Pattern(ResourceType.TOPIC, "orders")
SHOPS = Pattern(ResourceType.TOPIC, "shop-", PatternType.PREFIXED)
EVERY_TOPIC = Pattern(ResourceType.TOPIC, "*")


def acl(pattern: Pattern, operation: Operation = Operation.READ, principal: str = "User:alice") -> Acl:
    return Acl(pattern, principal, "*", operation, Permission.ALLOW)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        (ORDERS, "orders", True),
        (ORDERS, "orders-2", False),
        (SHOPS, "shop-1", True),
        (SHOPS, "shop-", True),
        (SHOPS, "shop", False),
        (EVERY_TOPIC, "anything", True),
        (Pattern(ResourceType.TOPIC, "*", PatternType.PREFIXED), "anything", False),
    ],
)
def test_a_pattern_covers_names(pattern: Pattern, name: str, covered: bool) -> None:
    assert pattern.covers(name) is covered


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {ORDERS, SHOPS, EVERY_TOPIC}),
        (AclFilter(ResourceType.GROUP), set()),
        (AclFilter(ResourceType.TOPIC, "orders"), {ORDERS}),
        (AclFilter(ResourceType.TOPIC, "shop-1", PatternType.ANY), set()),
        (AclFilter(ResourceType.TOPIC, "shop-1", PatternType.MATCH), {SHOPS, EVERY_TOPIC}),
        (AclFilter(ResourceType.TOPIC, "shop-", PatternType.PREFIXED), {SHOPS}),
        (AclFilter(ResourceType.TOPIC, None, PatternType.LITERAL), {ORDERS, EVERY_TOPIC}),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(host="10.0.0.1"), set()),
        (AclFilter(operation=Operation.WRITE), set()),
        (AclFilter(permission=Permission.DENY), set()),
    ],
)
def test_a_filter_finds_acls(wanted: AclFilter, found: set[Pattern]) -> None:
    acls = [acl(pattern) for pattern in (ORDERS, SHOPS, EVERY_TOPIC)]
    assert {each.pattern for each in acls if wanted.matches(each)} == found


def test_an_acl_reads_as_a_sentence() -> None:
    assert str(acl(SHOPS)) == "User:alice may read topic shop- (prefix)"
    denied = Acl(ORDERS, "User:*", "10.0.0.1", Operation.ALL, Permission.DENY)
    assert str(denied) == "User:* must not all topic orders from 10.0.0.1"
