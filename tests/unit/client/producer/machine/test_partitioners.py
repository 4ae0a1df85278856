"""Every partitioner: by key as Java's client does it, and the others (PRO-1)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.client.other_partitioners import murmur2_of_aiokafka, murmur2_of_kafka_python

from ottla.client.producer.machine.partitioners import (
    TopicPartitions,
    by_key,
    by_range,
    consistent,
    load_aware,
    murmur2,
    round_robin,
    sticky,
)


def topic(count: int, seed: int = 1) -> TopicPartitions:
    return TopicPartitions("t", count, random.Random(seed).random)


def chosen_when_moving_on(
    partitioner: object, partitions: TopicPartitions, times: int = 3_000
) -> Counter[int]:
    """How often each partition is stuck to, if its batch is sent each time."""
    counts: Counter[int] = Counter()
    for _ in range(times):
        partitions.current = -1
        counts[partitioner(None, partitions)] += 1  # type: ignore[operator]
    return counts


@pytest.mark.parametrize(
    ("key", "java"),
    [  # from Apache Kafka's own tests
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_agrees_with_java(key: bytes, java: int) -> None:
    assert murmur2(key) == java & 0xFFFFFFFF


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_other_clients(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF
    assert murmur2(key) == murmur2_of_aiokafka(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_partition(key: bytes, count: int) -> None:
    partitions = topic(count)
    partitions.available = [0]  # a partition without a leader keeps its keys
    assert by_key(key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % count


def test_records_without_a_key_stick_until_the_batch_is_sent() -> None:
    partitions = topic(10)
    first = by_key(None, partitions)
    assert {by_key(None, partitions) for _ in range(50)} == {first} == {partitions.current}
    assert len(chosen_when_moving_on(by_key, partitions)) == 10
    assert sticky(b"key", partitions) == partitions.current


def test_sticking_spreads_evenly_over_partitions_with_a_leader() -> None:
    partitions = topic(5)
    partitions.available = [1, 3, 4]
    counts = chosen_when_moving_on(sticky, partitions)
    assert counts.keys() == {1, 3, 4}
    assert all(900 < count < 1100 for count in counts.values())


def test_a_partition_whose_batches_pile_up_is_chosen_less_often() -> None:
    partitions = topic(3)
    partitions.queued = {1: 4}
    counts = chosen_when_moving_on(sticky, partitions)
    assert counts[1] * 4 < counts[0]
    assert 0.8 < counts[0] / counts[2] < 1.25


def test_round_robin_gives_equal_shares() -> None:
    partitions = topic(4)
    assert Counter(round_robin(b"k", partitions) for _ in range(40)) == dict.fromkeys(range(4), 10)
    partitions.available = [2]
    assert round_robin(None, partitions) == 2


def test_leaders_that_report_load_get_less_and_never_nothing() -> None:
    partitions = topic(3)
    partitions.loads = {0: 1.0, 1: 0.5}
    counts = chosen_when_moving_on(load_aware, partitions)
    assert 0 < counts[0] < counts[1] < counts[2]
    assert load_aware(b"foobar", partitions) == by_key(b"foobar", partitions)


def test_without_reports_load_aware_is_sticky() -> None:
    counts = chosen_when_moving_on(load_aware, topic(3))
    assert all(900 < count < 1100 for count in counts.values())


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(2, 30))
def test_consistent_hashing_moves_few_keys_and_only_to_the_new_partition(seed: int, count: int) -> None:
    keys = [b"%d-%d" % (seed, number) for number in range(200)]
    before = {key: consistent(key, topic(count)) for key in keys}
    after = {key: consistent(key, topic(count + 1)) for key in keys}
    moved = {key for key in keys if before[key] != after[key]}
    assert {after[key] for key in moved} <= {count}
    assert all(0 <= chosen < count for chosen in before.values())
    assert len(moved) < 200 / (count + 1) * 2 + 30


def test_consistent_hashing_spreads_keys() -> None:
    counts = Counter(consistent(b"key-%d" % number, topic(10)) for number in range(10_000))
    assert len(counts) == 10
    assert min(counts.values()) > 800
    assert consistent(None, topic(3)) in range(3)


def test_a_range_partitioner_keeps_keys_in_order() -> None:
    partition = by_range(b"g", b"p")
    assert [partition(key, topic(3)) for key in (None, b"", b"fz", b"g", b"o", b"p", b"z")] == [
        0,
        0,
        0,
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize("bounds", [(), (b"b", b"a"), (b"a", b"a")])
def test_bounds_that_do_not_rise_are_refused(bounds: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        by_range(*bounds)


def test_more_ranges_than_partitions_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match='2 bounds make 3 ranges; "t" has 2 partitions'):
        by_range(b"g", b"p")(b"z", topic(2))
