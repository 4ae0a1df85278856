from ottla.runtime.ordered_set import OrderedSet


def test_members_come_in_the_order_in_which_they_were_added() -> None:
    members = OrderedSet(["c", "a"])
    members.add("b")
    members.add("c")
    assert list(members) == ["c", "a", "b"]


def test_a_member_that_is_discarded_and_added_again_comes_last() -> None:
    members = OrderedSet(["a", "b"])
    members.discard("a")
    members.discard("unknown")
    members.add("a")
    assert list(members) == ["b", "a"]


def test_what_is_left_without_others_keeps_its_order() -> None:
    assert list(OrderedSet("dcba").without("cx")) == ["d", "b", "a"]
