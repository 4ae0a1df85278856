"""What the command line says about a partition that has no leader."""

import pytest

from ottla.client.admin.checks.waiting_partitions import brokers, reason_without_leader
from ottla.model import TopicPartition

Ids = tuple[int, ...]


@pytest.mark.parametrize(
    ("isr", "offline", "words"),
    [
        ((3,), (2, 3), "holds every acknowledged record: start broker 3."),
        ((), (2, 3), "each live replica may miss acknowledged records: start broker 2 or broker 3."),
        ((), (), "t-7 waits for you"),
    ],
)
def test_a_partition_without_a_leader_says_what_it_waits_for(isr: Ids, offline: Ids, words: str) -> None:
    reason = reason_without_leader(TopicPartition("t", 7), isr, offline)
    assert words in reason
    assert reason.startswith("t-7 waits")
    assert reason.endswith("ottla cluster recover --bootstrap HOST:PORT --topic t --partition 7")


def test_brokers_are_listed_as_in_a_sentence() -> None:
    assert brokers([1]) == "broker 1"
    assert brokers([1, 2, 3]) == "broker 1, broker 2 or broker 3"
