"""ACLs by pattern: a changed table answers as one that was built from the same ACLs, and shares what did not
change.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.security.acl.acl_table import AclTable
from ottla.security.acl.rules import Acl, Operation, Pattern, PatternType, Permission, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
NAMES = ["*", "a", "ab", "abc", "b"]

ACLS = st.builds(
    Acl,
    st.builds(
        Pattern,
        st.sampled_from([TOPIC, GROUP]),
        st.sampled_from(NAMES),
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    st.sampled_from(["User:alice", "User:bob"]),
    st.just("*"),
    st.sampled_from([Operation.READ, Operation.WRITE]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


def seen(table: AclTable) -> dict[tuple[ResourceType, str], set[Acl]]:
    """The ACLs about every resource that a test knows, and of every kind."""
    found = {
        (kind, name): {
            acl for by_principal in table.about(kind, name) for acls in by_principal.values() for acl in acls
        }
        for kind in (TOPIC, GROUP)
        for name in [*NAMES, "abcd"]
    }
    return found | {(kind, ""): set(table.of_kind(kind)) for kind in (TOPIC, GROUP)}


@given(st.lists(ACLS, unique=True), st.lists(ACLS, unique=True))
def test_a_changed_table_answers_as_one_that_was_built_anew(before: list[Acl], after: list[Acl]) -> None:
    first = AclTable(before)
    seen_before = seen(first)
    removed = [acl for acl in before if acl not in after]
    added = [acl for acl in after if acl not in before]
    assert seen(first.changed(removed, added)) == seen(AclTable(after))
    assert seen(first) == seen_before == seen(AclTable(before))


def test_patterns_that_no_change_touches_are_shared() -> None:
    def on(name: str) -> Acl:
        return Acl(Pattern(TOPIC, name), "User:alice", "*", Operation.READ, Permission.ALLOW)

    first = AclTable([on("a"), on("b")])
    second = first.changed([on("a")], [on("c")])
    assert next(second.about(TOPIC, "b")) is next(first.about(TOPIC, "b"))
    assert list(second.about(TOPIC, "a")) == []
