"""Which transactions there are over REST, whose they are, and how those ended that are over: GTW-1."""

from __future__ import annotations

import pytest

from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.rest.machine.transaction_table import TransactionState, TransactionTable

ALICE, BOB = Login("alice", "a"), Login("bob", "b")


def table(most: int = 2) -> TransactionTable[str]:
    return TransactionTable(most, idle_ms=100)


def test_a_transaction_is_its_logins() -> None:
    made = table()
    made.reserve("t", ALICE, 0).fill("it", 0)
    assert made.find("t", ALICE).needed() == "it"
    for name, login in (("t", BOB), ("t", None), ("u", ALICE)):
        with pytest.raises(HttpError, match="no transaction"):
            made.find(name, login)


def test_one_that_is_over_says_how_it_ended() -> None:
    made = table()
    place = made.reserve("t", ALICE, 0)
    with pytest.raises(HttpError, match="the transaction is open"):  # it is being opened
        place.needed()
    place.fill("it", 0)
    place.close(TransactionState.ABORTED, "somebody fenced it", 5)
    with pytest.raises(HttpError, match="the transaction is aborted: somebody fenced it"):
        place.needed()
    assert made.open_count == 0
    assert made.all_open() == []


def test_open_ones_are_limited_and_as_many_that_are_over_are_remembered() -> None:
    made = table(most=2)
    for number in range(5):
        made.reserve(f"t{number}", ALICE, number).fill("it", number)
        made.find(f"t{number}", ALICE).close(TransactionState.COMMITTED, "", number)
    assert made.find("t4", ALICE).state is TransactionState.COMMITTED
    with pytest.raises(HttpError, match="no transaction"):
        made.find("t0", ALICE)
    made.reserve("a", ALICE, 9)
    made.reserve("b", ALICE, 9)
    with pytest.raises(HttpError, match=r"ottla\.gateway\.max\.transactions"):
        made.reserve("c", ALICE, 9)
    made.forget("b")
    made.reserve("c", ALICE, 9)


def test_idle_ones_are_found_unless_a_request_uses_them() -> None:
    made = table()
    used, unused = made.reserve("used", ALICE, 0), made.reserve("unused", ALICE, 0)
    used.fill("it", 0)
    unused.fill("it", 0)
    used.begin()
    assert made.idle(99) == []
    assert made.idle(100) == [unused]
    used.end(100)
    assert made.idle(150) == [unused]
    assert made.idle(200) == [used, unused]


def test_how_one_ended_is_forgotten_after_a_while() -> None:
    made = table()
    place = made.reserve("t", ALICE, 0)
    place.fill("it", 0)
    place.close(TransactionState.COMMITTED, "", 50)
    assert made.idle(149) == []
    assert made.find("t", ALICE) is place
    assert made.idle(150) == []
    with pytest.raises(HttpError, match="no transaction"):
        made.find("t", ALICE)
