"""The authoriser decides as Kafka's does: super users, deny before allow, implied operations, prefixes,
hosts.
"""

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.acl.authoriser import Action, Authoriser
from ottla.security.acl.rules import (
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def on(name: str, operation: Operation, permission: Permission = ALLOW, principal: str = ALICE) -> Acl:
    return Acl(Pattern(TOPIC, name), principal, "*", operation, permission)


def under(prefix: str, operation: Operation, permission: Permission = ALLOW, principal: str = ALICE) -> Acl:
    return Acl(Pattern(TOPIC, prefix, PatternType.PREFIXED), principal, "*", operation, permission)


def may(authoriser: Authoriser, operation: Operation, name: str, principal: str = ALICE) -> bool:
    return authoriser.allows(principal, HOST, operation, TOPIC, name)


def test_without_a_rule_nobody_may() -> None:
    assert not may(Authoriser(), READ, "orders")


def test_a_super_user_may_everything_even_if_it_is_denied() -> None:
    authoriser = Authoriser([on("*", ALL, DENY, WILDCARD_PRINCIPAL)], {ALICE})
    assert may(authoriser, WRITE, "orders")
    assert (
        authoriser.verdict(Action(ALICE, HOST, WRITE, TOPIC, "orders")).reason == "User:alice is a super user"
    )


def test_a_denial_beats_every_permission() -> None:
    authoriser = Authoriser([on("orders", ALL), under("ord", WRITE, DENY, WILDCARD_PRINCIPAL)])
    assert may(authoriser, READ, "orders")
    assert not may(authoriser, WRITE, "orders")


@pytest.mark.parametrize("granted", [READ, WRITE, Operation.DELETE, Operation.ALTER, ALL, DESCRIBE])
def test_rights_that_imply_describe(granted: Operation) -> None:
    assert may(Authoriser([on("orders", granted)]), DESCRIBE, "orders")


def test_alter_configs_implies_describe_configs_and_nothing_else() -> None:
    authoriser = Authoriser([on("orders", Operation.ALTER_CONFIGS)])
    assert may(authoriser, Operation.DESCRIBE_CONFIGS, "orders")
    assert not may(authoriser, DESCRIBE, "orders")


def test_a_denied_read_does_not_deny_describe() -> None:
    authoriser = Authoriser([on("orders", WRITE), on("orders", READ, DENY)])
    assert may(authoriser, DESCRIBE, "orders")


def test_everyone_may_where_no_acl_is_found_and_the_setting_says_so() -> None:
    authoriser = Authoriser([on("orders", READ, principal=BOB)], allow_without_acl=True)
    assert may(authoriser, READ, "payments")
    # An ACL of somebody else is an ACL of the resource.
    assert not may(authoriser, READ, "orders")


def test_a_right_counts_from_its_host_only() -> None:
    authoriser = Authoriser([Acl(Pattern(TOPIC, "orders"), ALICE, "10.9.9.9", READ, ALLOW)])
    assert not may(authoriser, READ, "orders")
    assert authoriser.allows(ALICE, "10.9.9.9", READ, TOPIC, "orders")


def test_the_reason_names_the_acl() -> None:
    authoriser = Authoriser([under("ord", WRITE), on("secret", WRITE, DENY)])
    allowed = authoriser.verdict(Action(ALICE, HOST, WRITE, TOPIC, "orders"))
    assert allowed == (True, "an ACL allows it: User:alice may write topic ord (prefix)")
    denied = authoriser.verdict(Action(ALICE, HOST, WRITE, TOPIC, "secret"))
    assert denied == (False, "an ACL denies it: User:alice must not write topic secret")
    assert (
        authoriser.verdict(Action(BOB, HOST, READ, TOPIC, "orders")).reason
        == "no ACL of this resource allows it"
    )
    assert (
        authoriser.verdict(Action(BOB, HOST, READ, GROUP, "orders")).reason == "no ACL is about this resource"
    )


def test_allowed_operations_are_bits() -> None:
    authoriser = Authoriser([on("orders", READ)])
    assert authoriser.operations(ALICE, HOST, TOPIC, "orders") == 1 << READ | 1 << DESCRIBE


@pytest.mark.parametrize(
    ("acls", "some"),
    [
        ([], False),
        ([on("orders", WRITE)], True),
        ([on("orders", READ)], False),
        ([on("orders", WRITE), on("orders", WRITE, DENY)], False),
        ([on("orders", WRITE), under("ord", WRITE, DENY)], False),
        ([under("ord", WRITE), on("orders", WRITE, DENY)], True),
        ([under("ord", WRITE), under("o", ALL, DENY)], False),
        ([on("*", WRITE), under("o", ALL, DENY)], True),
        ([on("orders", WRITE), on("*", WRITE, DENY)], False),
    ],
)
def test_whether_there_is_any_topic_to_write_to(acls: list[Acl], some: bool) -> None:
    assert Authoriser(acls).allows_some(ALICE, HOST, WRITE, TOPIC) is some


names = st.sampled_from(["a", "ab", "abc", "b", "*"])
acls = st.builds(
    Acl,
    st.builds(Pattern, st.just(TOPIC), names, st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])),
    st.sampled_from([ALICE, BOB, WILDCARD_PRINCIPAL]),
    st.sampled_from(["*", HOST, "10.9.9.9"]),
    st.sampled_from([READ, DESCRIBE, ALL]),
    st.sampled_from([ALLOW, DENY]),
)


@given(st.lists(acls, max_size=6), st.sampled_from([READ, DESCRIBE]), names, st.booleans())
def test_the_index_finds_what_reading_all_acls_finds(
    given_acls: list[Acl], operation: Operation, name: str, by_default: bool
) -> None:
    about = [acl for acl in given_acls if acl.pattern.covers(name)]
    mine = [acl for acl in about if acl.principal in (ALICE, WILDCARD_PRINCIPAL) and acl.host in (HOST, "*")]
    denied = any(acl.operation in (operation, ALL) for acl in mine if acl.permission is DENY)
    implying = {READ: {READ, ALL}, DESCRIBE: {READ, DESCRIBE, ALL}}[operation]
    allowed = any(acl.operation in implying for acl in mine if acl.permission is ALLOW)
    expected = not denied and (allowed or (not about and by_default))
    assert may(Authoriser(given_acls, allow_without_acl=by_default), operation, name) is expected


def test_ten_thousand_acls_cost_no_more_than_ten() -> None:
    crowd = [
        (under if number % 2 else on)(f"team-{number:05}", WRITE, principal=f"User:{number}")
        for number in range(10_000)
    ]
    authoriser = Authoriser([*crowd, *(on("orders", WRITE, principal=f"User:{n}") for n in range(1000))])
    began = perf_counter()
    for number in range(30_000):
        assert not may(authoriser, WRITE, f"team-{number:05}")
    # A few microseconds each; a search through all ACLs would take half a minute.
    assert perf_counter() - began < 10


def test_invented_names_do_not_fill_the_memory() -> None:
    authoriser = Authoriser([on("orders", READ)])
    for number in range(25_000):
        assert not may(authoriser, READ, str(number))
    assert may(authoriser, READ, "orders")
