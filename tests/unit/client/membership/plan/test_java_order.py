"""Hashes and orders that Java gave (`"...".hashCode()`, and the keys of a HashMap, of a JDK 17)."""

from __future__ import annotations

from ottla.client.membership.plan.java_order import in_hash_order, partition_hash, string_hash
from ottla.model import TopicPartition


def test_hashes_are_javas() -> None:
    assert string_hash("") == 0
    assert string_hash("consumer-1") == 4128728090
    assert string_hash("käse \U0001f9c0") == 2817109911
    assert partition_hash(TopicPartition("orders", 7)) == 3286198143


def test_keys_come_in_the_order_of_a_hash_map() -> None:
    assert in_hash_order([f"m{n}" for n in range(8, 0, -1)], string_hash) == [f"m{n}" for n in range(1, 9)]
    numbers = [11, 10, 6, 17, 5, 16, 4, 19, 3, 18, 2, 13, 1, 12, 0, 15, 14, 20, 22, 21]
    numbers += [28, 27, 29, 24, 23, 26, 25, 9, 8, 7]
    thirty = [f"consumer-{n}" for n in range(30)]
    assert in_hash_order(thirty, string_hash) == [f"consumer-{n}" for n in numbers]


def test_keys_in_the_same_place_stay_in_the_order_in_which_they_came() -> None:
    assert in_hash_order(["BB", "Aa"], string_hash) == ["BB", "Aa"]
    assert in_hash_order(["Aa", "BB", "Aa"], string_hash) == ["Aa", "BB"]
