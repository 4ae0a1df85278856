"""Fixtures for pytest, found by themselves where Ottla is installed.

- `ottla_broker`: a broker for this test alone.
- `ottla_secured_broker`: the same with TLS, logins and rights; its users are `alice` and `bob`, and a user may do
  what the test allows.
- `ottla_shared_broker`: one broker for the whole session; tests keep apart by the names of their topics.
  Faults that a test set are cleared after it.
- `ottla_topic`: the name of a new topic on the broker that the test uses: the shared one if it asks for it,
  else its own.

The broker's modules are imported when the first fixture is used, not before: tests that use none pay nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing import EmbeddedBroker

_SHARED = "ottla_shared_broker"
_numbers = count(1)


@pytest.fixture
def ottla_broker() -> Iterator[EmbeddedBroker]:
    """A broker for this test alone."""
    from ottla.testing import broker

    with broker() as running:
        yield running


@pytest.fixture
def ottla_secured_broker() -> Iterator[EmbeddedBroker]:
    """A broker with TLS, the users alice and bob, and rights that are checked, for this test alone."""
    from ottla.testing import broker

    users = {name: token_hex(8) for name in ("alice", "bob")}
    with broker(users=users, tls=True, settings={"authorizer.class.name": "acl"}) as running:
        yield running


@pytest.fixture(scope="session")
def ottla_shared_broker() -> Iterator[EmbeddedBroker]:
    """One broker for the whole session."""
    from ottla.testing import broker

    with broker() as running:
        yield running


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> str:
    """The name of a new topic with one partition, on the broker that the test uses."""
    is_shared = _SHARED in request.fixturenames
    used: EmbeddedBroker = request.getfixturevalue(_SHARED if is_shared else "ottla_broker")
    return used.create_topic(f"topic-{next(_numbers)}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A fault outlives no test."""
    funcargs = getattr(item, "funcargs", None) or {}
    if _SHARED in funcargs:
        funcargs[_SHARED].faults.clear()
