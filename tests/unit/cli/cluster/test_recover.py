"""What `ottla cluster recover` says and chooses."""

from __future__ import annotations

from ottla.cli.cluster.recover import as_document, chosen_of, given_up, waits_for
from ottla.client.requests.leaderless import LeaderCandidate, LeaderlessPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

BEST = LeaderCandidate(2, 0, 100, 4, 1_700_000_000_000, {1: 0})
SHORT = LeaderCandidate(1, 0, 80, 4, -1, {2: 20})
DIVERGED = LeaderCandidate(3, 0, 90, 3, -1, {1: None, 2: 7})


def waiting(
    *candidates: LeaderCandidate, silent: dict[int, str] | None = None, isr: tuple[int, ...] = ()
) -> LeaderlessPartition:
    return LeaderlessPartition((1, 2, 3), isr, (), 3, candidates, silent or {})


def test_the_best_replica_is_chosen_or_the_named_one() -> None:
    found = waiting(BEST, SHORT)
    assert chosen_of(found, None) is BEST
    assert chosen_of(found, 1) is SHORT
    assert chosen_of(found, 3) is None
    assert chosen_of(waiting(), None) is None


def test_the_loss_is_said_as_far_as_it_is_known() -> None:
    whole = waiting(BEST, SHORT, DIVERGED)
    assert given_up(BEST, whole) == "nothing that a live replica has"
    assert given_up(SHORT, whole) == "20 records of broker 2"
    assert given_up(DIVERGED, whole) == "an unknown number of records of broker 1, 7 records of broker 2"
    away = waiting(SHORT, silent={2: "it is not running", 3: "refused"})
    assert given_up(SHORT, away) == (
        "20 records of broker 2, and what only broker 2 or broker 3 has (unknown)"
    )


def test_the_replicas_that_hold_everything_are_waited_for() -> None:
    assert "It waits for broker 1 or broker 3" in waits_for(waiting(BEST, isr=(1, 3)))
    assert waits_for(waiting(BEST)).endswith("it waits for you. Broker 3 led last.")


def test_the_document_tells_what_was_decided() -> None:
    first, second, third = (TopicPartition("t", index) for index in range(3))
    found = {first: waiting(BEST), second: waiting(BEST), third: waiting()}
    refused = KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "gone.")
    document = as_document(found, {first: BEST, second: BEST}, {first: None, second: refused})
    decided = [(each["chosen"], each["is_elected"], each["error"]) for each in document["partitions"]]
    assert decided == [
        (2, True, None),
        (2, False, "gone (ELIGIBLE_LEADERS_NOT_AVAILABLE)"),
        (None, False, None),
    ]
