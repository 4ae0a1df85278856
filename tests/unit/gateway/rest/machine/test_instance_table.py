"""Which instances there are, whose they are, and which are idle."""

from __future__ import annotations

import pytest

from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.rest.machine.instance_table import InstanceTable

ALICE = Login("alice", "a")


def refused(status: int, error_code: int) -> pytest.RaisesExc[HttpError]:
    return pytest.RaisesExc(
        HttpError, check=lambda error: (error.status, error.error_code) == (status, error_code)
    )


def table_with(name: str, login: Login | None = None) -> InstanceTable[str]:
    table: InstanceTable[str] = InstanceTable(2, idle_ms=100)
    table.reserve("g", name, login, 0)
    table.fill("g", name, f"instance {name}", 0)
    return table


def test_an_instance_belongs_to_the_login_that_made_it() -> None:
    table = table_with("one", ALICE)
    assert table.begin("g", "one", ALICE) == "instance one"
    for login in (None, Login("alice", "other"), Login(token="t")):
        with refused(404, 40403):
            table.begin("g", "one", login)
    with refused(404, 40403):
        table.remove("h", "one", ALICE)


def test_a_name_is_given_once_also_while_the_instance_is_being_opened() -> None:
    table: InstanceTable[str] = InstanceTable(5, idle_ms=100)
    table.reserve("g", "one", None, 0)
    with refused(409, 40902):
        table.reserve("g", "one", ALICE, 0)
    with refused(404, 40403):
        table.begin("g", "one", None)
    table.forget("g", "one")
    table.reserve("g", "one", ALICE, 0)


def test_there_are_at_most_so_many() -> None:
    table = table_with("one")
    table.reserve("g", "two", None, 0)
    with refused(429, 42901):
        table.reserve("g", "three", None, 0)


def test_an_instance_is_idle_when_no_request_uses_it() -> None:
    table = table_with("one")
    assert table.remove_idle(99) == []
    table.begin("g", "one", None)
    assert table.remove_idle(1_000) == []
    table.end("g", "one", 1_000)
    assert table.remove_idle(1_099) == []
    assert table.remove_idle(1_100) == ["instance one"]
    assert len(table) == 0
    table.end("g", "one", 1_200)  # of a request that ends after the instance


def test_all_instances_go_at_the_end() -> None:
    table = table_with("one")
    table.reserve("g", "opening", None, 0)
    assert table.remove_all() == ["instance one"]
    assert len(table) == 0
