"""`ottla transactions` and `ottla doctor` on open and on hanging transactions (OPS-7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, batch, create_topic, list_offset, now_ms
from tests.integration.test_transactional_offsets import FEW_PARTITIONS, Producer, until_offset

from ottla.cli.inspect.broker_check import check_broker
from ottla.cli.main import ottla
from ottla.client.admin.checks.findings import Severity
from ottla.client.requests.offsets import OffsetSpec
from ottla.errors import ErrorCode

HOUR_MS = 3_600_000
_producer_ids = count(9000)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("transactions") / "data", FEW_PARTITIONS) as broker:
        yield broker


def run(served: BrokerThread, *arguments: str) -> Result:
    return CliRunner().invoke(ottla, ["transactions", *arguments, "--bootstrap", f"localhost:{served.port}"])


def answer(served: BrokerThread, *arguments: str) -> Any:
    done = run(served, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def hang(served: BrokerThread, topic: str) -> int:
    """Records of a transaction that no coordinator knows, an hour old; the producer's id."""
    producer_id = next(_producer_ids)
    records = batch(
        b"a",
        b"b",
        timestamp=now_ms() - HOUR_MS,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    partition = served.partition(topic)
    (appended,) = served.call(lambda: partition.append([memoryview(records)], now_ms()))
    assert not isinstance(appended, Exception), appended
    return producer_id


def stable_offset(peer: Peer, topic: str) -> int:
    return list_offset(peer, topic, OffsetSpec.LATEST, isolation_level=1).offset


def test_an_open_transaction_is_listed_described_and_aborted(
    served: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    assert producer.commit_offset("g", topic, 9) == ErrorCode.NONE
    (listed,) = answer(served, "list", "--state", "ongoing", "--matching", producer.name)
    assert listed == {
        "transactional_id": producer.name,
        "coordinator": 1,
        "producer_id": producer.identity[0],
        "state": "Ongoing",
    }
    assert producer.name in run(served, "list").stdout
    assert answer(served, "list", "--producer-id", str(producer.identity[0]), "--open-for", "60") == []

    described = answer(served, "describe", producer.name)
    assert (described["state"], described["producer_epoch"]) == ("Ongoing", producer.identity[1])
    assert [each["topic"] for each in described["partitions"]] == ["__consumer_offsets"]
    assert "Ongoing" in run(served, "describe", producer.name).stdout

    assert answer(served, "abort", producer.name) == {"aborted": [producer.name]}
    until_offset(peer, "g", topic, -1)
    assert producer.commit_offset("g", topic, 10) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_is_not_open_is_not_aborted(served: BrokerThread, peer: Peer) -> None:
    producer = Producer(peer)
    refused = run(served, "abort", producer.name, "nobody")
    assert refused.exit_code == 1
    assert f"could not abort {producer.name}: its transaction is not open" in refused.stderr
    assert 'there is no transactional id "nobody"' in refused.stderr
    assert run(served, "describe", "nobody").exit_code == 1
    assert answer(served, "list", "--matching", "nobody") == []


def test_a_hanging_transaction_is_found_shown_and_aborted(
    served: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    producer_id = hang(served, topic)
    found = answer(served, "find-hanging", "--topic", topic)
    assert [(each["producer_id"], each["open_since_offset"]) for each in found] == [(producer_id, 0)]
    assert producer_id in [each["producer_id"] for each in answer(served, "producers", topic)]
    text = run(served, "find-hanging").stdout
    assert f"ottla transactions abort --partition {topic}:0 --producer-id {producer_id}" in text

    assert stable_offset(peer, topic) == 0
    aborted = run(served, "abort", "--partition", f"{topic}:0", "--producer-id", str(producer_id))
    assert aborted.exit_code == 0, aborted.output
    assert stable_offset(peer, topic) == 3
    assert answer(served, "find-hanging", "--topic", topic) == []
    again = run(served, "abort", "--partition", f"{topic}:0", "--producer-id", str(producer_id))
    assert f"producer {producer_id} has no open transaction in {topic}-0" in again.stderr


def test_the_doctor_names_what_holds_readers_back(served: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic)
    producer_id = hang(served, topic)
    report = asyncio.run(check_broker(f"localhost:{served.port}"))
    (finding,) = [each for each in report.findings if each.place == f"{topic}-0"]
    assert finding.severity is Severity.WARNING
    assert "wait at offset 0, 2 records are held back" in finding.problem
    assert f"--partition {topic}:0 --producer-id {producer_id}" in finding.advice
