"""Who is logged in to the console."""

from __future__ import annotations

from ottla.gateway.console.machine.sessions import SessionTable, session_in
from ottla.gateway.http.machine.credentials import Login

ADA, BOB = Login("ada", "a"), Login("bob", "b")


def test_a_session_lasts_while_it_is_used() -> None:
    table = SessionTable(idle_ms=100)
    table.begin("one", ADA, 0)
    assert table.login_of("one", 90) == ADA
    assert table.login_of("one", 180) == ADA
    assert table.login_of("one", 281) is None
    assert len(table) == 0


def test_a_session_that_was_ended_is_nobody() -> None:
    table = SessionTable(idle_ms=100)
    table.begin("one", ADA, 0)
    table.end("one")
    table.end("unknown")
    assert table.login_of("one", 1) is None


def test_the_table_has_a_bound_and_drops_whoever_was_idle_longest() -> None:
    table = SessionTable(idle_ms=1_000, most=2)
    table.begin("one", ADA, 0)
    table.begin("two", BOB, 1)
    assert table.login_of("one", 2) == ADA
    table.begin("three", BOB, 3)
    assert table.login_of("two", 4) is None
    assert table.login_of("one", 4) == ADA


def test_idle_sessions_are_forgotten_by_a_sweep() -> None:
    table = SessionTable(idle_ms=10)
    table.begin("one", ADA, 0)
    table.forget_idle(11)
    assert len(table) == 0


def test_the_cookie_is_found_among_others() -> None:
    assert session_in("a=1; ottla_console=xyz; b=2", "ottla_console") == "xyz"
    assert session_in("ottla_console=", "ottla_console") is None
    assert session_in("xottla_console=1", "ottla_console") is None
    assert session_in("", "ottla_console") is None
