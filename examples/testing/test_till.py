"""How an application that uses Kafka is tested without Kafka: `pytest examples/testing`.

The same tests for the same small application written with three clients. Nothing is mocked, nothing is
installed but Ottla, and each test has a broker of its own, which is there in a few milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable

import pytest
from examples.testing import till_aiokafka, till_confluent, till_ottla

import ottla.blocking
from ottla.testing import EmbeddedBroker, ErrorCode

Till = Callable[[str, int], None]

TILLS: dict[str, Till] = {
    "ottla": lambda bootstrap, orders: asyncio.run(till_ottla.run_till(bootstrap, orders)),
    "aiokafka": lambda bootstrap, orders: asyncio.run(till_aiokafka.run_till(bootstrap, orders)),
    "confluent": till_confluent.run_till,
}


@pytest.fixture(params=TILLS)
def run_till(request: pytest.FixtureRequest) -> Till:
    return TILLS[request.param]


@pytest.fixture
def broker(ottla_broker: EmbeddedBroker) -> EmbeddedBroker:
    """A broker with the topics of the application."""
    ottla_broker.create_topic("orders")
    ottla_broker.create_topic("receipts")
    return ottla_broker


def order(broker: EmbeddedBroker, *items: str) -> None:
    with ottla.blocking.Producer(broker.bootstrap) as guest:
        guest.send("orders", json.dumps({"items": items}), key="table 4")


def totals(broker: EmbeddedBroker) -> list[int]:
    return [json.loads(record.value or b"")["total"] for record in broker.records("receipts")]


def test_every_order_gets_a_receipt(broker: EmbeddedBroker, run_till: Till) -> None:
    order(broker, "coffee")
    order(broker, "tea", "cake")
    run_till(broker.bootstrap, 2)
    assert totals(broker) == [3, 6]
    assert {record.key for record in broker.records("receipts")} == {b"table 4"}


def test_a_till_that_starts_again_goes_on_where_it_was(broker: EmbeddedBroker, run_till: Till) -> None:
    order(broker, "coffee")
    order(broker, "tea")
    run_till(broker.bootstrap, 1)
    run_till(broker.bootstrap, 1)
    assert totals(broker) == [3, 2]


def test_an_answer_that_is_lost_makes_no_second_receipt(broker: EmbeddedBroker, run_till: Till) -> None:
    order(broker, "coffee")
    fault = broker.faults.lose_answer("produce")
    run_till(broker.bootstrap, 1)
    assert fault.hits == 1
    assert totals(broker) == [3]


def test_a_leader_that_moves_loses_no_receipt(broker: EmbeddedBroker, run_till: Till) -> None:
    order(broker, "coffee")
    fault = broker.faults.fail("produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    run_till(broker.bootstrap, 1)
    assert fault.hits == 2
    assert totals(broker) == [3]


def test_a_broker_that_restarts_is_waited_for(broker: EmbeddedBroker, run_till: Till) -> None:
    till = threading.Thread(target=run_till, args=(broker.bootstrap, 2))
    till.start()
    order(broker, "coffee")
    deadline = time.monotonic() + 30
    while totals(broker) != [3]:
        assert time.monotonic() < deadline, "no receipt"
    broker.restart()
    order(broker, "tea")
    till.join(60)
    assert not till.is_alive()
    assert totals(broker) == [3, 2]
