"""Offsets as Spark keeps them: the JSON, and what is not that JSON."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import (
    OffsetRange,
    in_words,
    offsets_as_json,
    offsets_of_json,
    parse_numbers,
    parse_partitions,
)

A0, A1, A10, B0 = (
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("a", 10),
    TopicPartition("b", 0),
)


def test_the_order_is_by_topic_and_by_number_however_they_came() -> None:
    """Spark compares offsets as text: another order would look like new data."""
    text = json.dumps(offsets_as_json({B0: 4, A10: 3, A0: 1, A1: 2}))
    assert text == '{"a": {"0": 1, "1": 2, "10": 3}, "b": {"0": 4}}'


@given(st.dictionaries(st.tuples(st.text("abc", min_size=1), st.integers(0, 20)), st.integers(0, 2**62)))
def test_what_is_written_is_read_again(offsets: dict[tuple[str, int], int]) -> None:
    written = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
    assert offsets_of_json(json.loads(json.dumps(offsets_as_json(written)))) == written


def test_the_offsets_of_a_checkpoint_of_sparks_kafka_source_mean_the_same() -> None:
    assert offsets_of_json(json.loads('{"a":{"1":7,"0":23}}')) == {A0: 23, A1: 7}
    assert parse_numbers('{"a":{"1":-1,"0":-2},"b":{"0":5}}') == {A0: -2, A1: -1, B0: 5}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "[1]",
        '{"a":1}',
        '{"a":[0]}',
        '{"a":{"x":1}}',
        '{"a":{"-1":1}}',
        '{"a":{"0":"1"}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":true}}',
        '{"a":{"0":null}}',
        '{"a":{"0":1},"a":{"0":2}}',
        '{"a":{"0":1,"0":2}}',
        '{"a":{"0":1}',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_numbers(text)


def test_partitions_are_lists_of_numbers() -> None:
    assert parse_partitions('{"a":[0,1],"b":[0]}') == {A0, A1, B0}
    for wrong in ("a", "[0]", '{"a":0}', '{"a":[-1]}', '{"a":[1.5]}', '{"a":{"0":1}}'):
        with pytest.raises(ValueError):
            parse_partitions(wrong)


def test_a_range_travels_to_executors_and_says_what_it_is() -> None:
    one = OffsetRange("a", 1, 5, 9)
    assert pickle.loads(pickle.dumps(one)) == one
    assert (one.size, one.topic_partition, str(one)) == (4, A1, "a-1 [5, 9)")
    assert in_words([B0, A0]) == "a-0, b-0"
    assert in_words([]) == "none"
