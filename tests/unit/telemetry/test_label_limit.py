"""Names beyond a limit share one label, and names that have series keep them (OPS-2)."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.telemetry.label_limit import OTHER, LabelLimit


def test_names_beyond_the_limit_share_a_label_and_are_counted() -> None:
    limit = LabelLimit(3)
    limit.admit({"a": 1, "b": 2, "c": 1})
    assert [limit.label_of(name) for name in "abc"] == ["a", "b", OTHER]
    assert limit.hidden_count == 1
    assert limit.shows("a")
    assert not limit.shows("c")


def test_a_name_keeps_its_series_until_it_is_gone() -> None:
    limit = LabelLimit(2)
    limit.admit({"m": 1, "n": 1})
    limit.admit({"a": 1, "m": 1, "n": 1})
    assert (limit.label_of("a"), limit.label_of("m"), limit.hidden_count) == (OTHER, "m", 1)
    limit.admit({"a": 1, "n": 1})
    assert (limit.label_of("a"), limit.label_of("m"), limit.hidden_count) == ("a", OTHER, 0)


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4)), max_size=5), st.integers(0, 9)
)
def test_the_limit_holds_whatever_comes_and_goes(looks: list[dict[str, int]], most: int) -> None:
    limit = LabelLimit(most)
    for weights in looks:
        limit.admit(weights)
        shown = [name for name in weights if limit.shows(name)]
        assert sum(weights[name] for name in shown) <= most
        assert limit.hidden_count == len(weights) - len(shown)
