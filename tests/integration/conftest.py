"""A broker that the tests of one module share, a connection for each test, and a topic name nobody else
has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker with its settings as they come."""
    with broker_thread(tmp_path_factory.mktemp("served") / "data") as broker:
        yield broker


@pytest.fixture
def peer(served: BrokerThread) -> Iterator[Peer]:
    with Peer(served.port) as connected:
        yield connected


@pytest.fixture
def topic() -> str:
    """A name, not yet a topic."""
    return f"topic{next(_NUMBERS)}"
