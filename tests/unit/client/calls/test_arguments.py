from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.calls import arguments
from ottla.model import Address, TopicPartition

T0 = TopicPartition("t", 0)


class Index:
    """An integer type of another library."""

    def __index__(self) -> int:
        return 7


class Rude:
    def __repr__(self) -> str:
        raise OSError


@pytest.mark.parametrize(
    ("check", "value", "result"),
    [
        (arguments.text, "tä", "tä"),
        (arguments.text, "", ""),
        (arguments.flag, False, False),
        (arguments.whole_number, Index(), 7),
        (arguments.timestamp_ms, 2**63 - 1, 2**63 - 1),
        (arguments.duration_ms, 0.5, 0.5),
        (arguments.duration_ms, 3, 3),
        (arguments.function, None, None),
        (arguments.function, print, print),
        (arguments.names, ("a", "b"), ["a", "b"]),
        (arguments.names, {"a": 1}, ["a"]),
        (arguments.names, iter(["a"]), ["a"]),
        (arguments.partitions, [("t", 0)], [T0]),
        (arguments.numbers, {3}, [3]),
        (arguments.addresses, "a:1, b", (Address("a", 1), Address("b", 9092))),
        (arguments.addresses, ["a:1", "b:2"], (Address("a", 1), Address("b", 2))),
    ],
)
def test_a_right_value_passes(check: Callable[[str, Any], Any], value: object, result: object) -> None:
    assert check("it", value) == result


@pytest.mark.parametrize(
    ("check", "value", "error", "message"),
    [
        (arguments.text, None, TypeError, "it must be text, not None"),
        (arguments.text, "\ud800", ValueError, "it has characters that UTF-8 cannot carry"),
        (arguments.text, "a" * 40_000, ValueError, "it has 40000 characters: .* allows 32767 bytes"),
        (arguments.name_of, "", ValueError, "it must not be empty"),
        (arguments.flag, 1, TypeError, "it must be True or False, not 1"),
        (arguments.whole_number, 1.0, TypeError, r"it must be a whole number, not 1\.0"),
        (arguments.whole_number, True, TypeError, "it must be a whole number, not True"),
        (arguments.whole_number, -1, ValueError, "it must be at least 0, not -1"),
        (arguments.whole_number, 2**63, ValueError, "it must be at most 9223372036854775807"),
        (arguments.timestamp_ms, 1.5, TypeError, r"whole number of milliseconds since 1970, not 1\.5"),
        (arguments.timestamp_ms, 2**70, ValueError, "it must be milliseconds since 1970"),
        (arguments.duration_ms, "1", TypeError, "it must be a number of milliseconds, not '1'"),
        (arguments.duration_ms, float("nan"), ValueError, "it must be at most 2147483647, not nan"),
        (arguments.function, "f", TypeError, "it must be a function, not 'f'"),
        (arguments.names, "abc", TypeError, r"it must be a list of names, .*: write \['abc'\]"),
        (arguments.names, b"abc", TypeError, "it must be a list of names, not b'abc'"),
        (arguments.names, None, TypeError, "it must be a list of names, not None"),
        (arguments.names, [1], TypeError, "each of it must be text, not 1"),
        (arguments.names, [""], ValueError, "each of it must not be empty"),
        (arguments.partition, "ab", TypeError, r'it must be a TopicPartition\("topic", 0\), not \'ab\''),
        (arguments.partition, ("t", "0"), TypeError, "the partition of it must be a whole number, not '0'"),
        (arguments.partition, (1, 0), TypeError, "the topic of it must be text, not 1"),
        (arguments.partitions, T0, TypeError, r"write \[TopicPartition\(topic='t', partition=0\)\]"),
        (arguments.partitions, ["ab"], TypeError, "each of it must be a TopicPartition"),
        (arguments.partitions, [("t", -1)], ValueError, "the partition of each of it must be at least 0"),
        (arguments.numbers, 3, TypeError, r"it must be a list of numbers, .*: write \[3\]"),
        (arguments.addresses, {"a": 1}, TypeError, "it must be text such as"),
        (arguments.addresses, [("a", 1)], TypeError, "it must be text such as"),
        (arguments.addresses, None, TypeError, "it must be text such as"),
        (arguments.addresses, [], ValueError, "it: no broker address was given"),
        (arguments.addresses, "http://a:1", ValueError, r'it: "http://a:1".* without "http://"'),
        (arguments.text, Rude(), TypeError, "it must be text, not a Rude"),
        (arguments.text, ["a"] * 99, TypeError, "…$"),
    ],
)
def test_a_wrong_value_is_refused_with_a_sentence_that_names_the_argument(
    check: Callable[[str, Any], Any], value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check("it", value)


def test_each_value_of_a_dict_is_named() -> None:
    assert arguments.by_partition("it", {T0: 3}, arguments.offset) == {T0: 3}
    with pytest.raises(TypeError, match=r"it must be a dict such as \{'name'"):
        arguments.by_name("it", ["a"], arguments.text)
    with pytest.raises(TypeError, match="each key of it must be a TopicPartition"):
        arguments.by_partition("it", {"t": 3}, arguments.offset)
    with pytest.raises(TypeError, match=r"it\['a'\] must be text, not 3"):
        arguments.by_name("it", {"a": 3}, arguments.text)


def test_items_are_of_their_class() -> None:
    assert arguments.items("it", [T0], TopicPartition, "TopicPartition(…)") == [T0]
    with pytest.raises(TypeError, match=r"each of it must be a TopicPartition\(…\), not 'a'"):
        arguments.items("it", ["a"], TopicPartition, "TopicPartition(…)")
