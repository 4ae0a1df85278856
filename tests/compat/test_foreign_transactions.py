"""Transactional producers of Java and Go, and their readers of committed records, with the protocol of transaction
version 2 (KIP-890): partitions and groups join a transaction without a request, and every transaction has an
epoch (EOS-1, EOS-2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from bench.apache.maven import CannotFetchError
from tests.clients.families.driver_family import Driver
from tests.clients.model import RefusedError
from tests.compat.foreign_clients import franz_driver, java_driver
from tests.compat.transactional_client import UNCOMMITTED, TransactionalClient
from tests.conftest import start

from ottla.localcluster.broker_process import running

FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
NOT_TRIED = {"OPERATION_NOT_ATTEMPTED"}  # franz-go of a commit after a record that was refused
SMALL = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}


PROGRAMS: Final[dict[str, Callable[[], Driver]]] = {"java": java_driver, "franz-go": franz_driver}
# franz-go has offsets in transactions only together with its consumer: see the loop that copies.
SENDS_OFFSETS: Final = pytest.mark.parametrize("client", ["java"], indirect=True)
COPIES: Final = pytest.mark.parametrize("client", ["franz-go"], indirect=True)


@pytest.fixture(scope="module", params=PROGRAMS)
def client(
    request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TransactionalClient]:
    try:
        driver = PROGRAMS[request.param]()
    except CannotFetchError as reason:
        pytest.skip(f"NO CLIENT OF {request.param}: {reason}")
    try:
        with running(start(target, tmp_path_factory.mktemp("foreign") / "data", SMALL)) as broker:
            yield TransactionalClient(driver, broker.bootstrap)
    finally:
        driver.kill()


def test_committed_transactions_are_read_and_aborted_ones_are_not(client: TransactionalClient) -> None:
    client.create_topic("ends", 2)
    producer = client.producer("ends", "ends")
    begun_with = client.epoch("ends")
    for number in range(6):
        producer.begin()
        for partition in range(2):
            producer.send("ends", f"{number}-{partition}", partition)
        if number % 2:
            producer.abort()
        else:
            producer.commit()
    producer.close()
    committed = [f"{number}-{partition}" for partition in range(2) for number in (0, 2, 4)]
    assert client.values("ends") == committed
    assert len(client.values("ends", UNCOMMITTED)) == 12
    assert client.epoch("ends") == begun_with + 6  # one for each end: the protocol of version 2 was spoken


def test_readers_of_committed_records_wait_for_the_end_of_the_transaction(
    client: TransactionalClient,
) -> None:
    client.create_topic("waiting", 1)
    first, second = client.producer("first", "waiting-1"), client.producer("second", "waiting-2")
    first.begin()
    first.send("waiting", "early")
    second.begin()
    second.send("waiting", "late")
    second.commit()
    assert client.values("waiting") == []
    assert client.values("waiting", UNCOMMITTED) == ["early", "late"]
    first.commit()
    first.close()
    second.close()
    assert client.values("waiting") == ["early", "late"]


def test_a_second_producer_with_the_same_id_fences_the_first(client: TransactionalClient) -> None:
    client.create_topic("fenced", 1)
    first = client.producer("zombie", "fenced")
    first.begin()
    first.send("fenced", "before")
    second = client.producer("heir", "fenced")
    with pytest.raises(RefusedError) as refused:
        first.send("fenced", "after")
    assert refused.value.code in FENCED
    with pytest.raises(RefusedError) as refused:
        first.commit()
    assert refused.value.code in FENCED | NOT_TRIED
    second.begin()
    second.send("fenced", "of the heir")
    second.commit()
    first.close()
    second.close()
    assert client.values("fenced") == ["of the heir"]


def test_a_fenced_producer_cannot_commit_what_it_wrote(client: TransactionalClient) -> None:
    client.create_topic("torn", 1)
    first = client.producer("torn-1", "torn")
    first.begin()
    first.send("torn", "never")
    second = client.producer("torn-2", "torn")
    with pytest.raises(RefusedError) as refused:
        first.commit()
    assert refused.value.code in FENCED
    first.close()
    second.close()
    assert client.values("torn") == []


@SENDS_OFFSETS
def test_offsets_are_committed_with_the_transaction_or_not_at_all(client: TransactionalClient) -> None:
    client.create_topic("offsets", 1)
    producer = client.producer("offsets", "offsets")
    producer.begin()
    producer.send("offsets", "a")
    producer.send_offset("readers", "offsets", 0, 3)
    with pytest.raises(RefusedError) as refused:  # pending: a consumer that wants stable offsets waits
        client.stable_offset("readers", "offsets", 0, patience_ms=1_000)
    assert refused.value.code == "REQUEST_TIMED_OUT"
    producer.commit()
    assert client.stable_offset("readers", "offsets", 0) == 3
    producer.begin()
    producer.send_offset("readers", "offsets", 0, 7)
    producer.abort()
    assert client.stable_offset("readers", "offsets", 0) == 3
    producer.close()


@SENDS_OFFSETS
def test_many_small_transactions_in_a_row(client: TransactionalClient) -> None:
    """Each begins while the markers of the one before are being written."""
    client.create_topic("many", 2)
    producer = client.producer("many", "many")
    for number in range(100):
        producer.begin()
        producer.send("many", str(number), number % 2)
        producer.send_offset("many", "many", 0, number)
        producer.commit()
    producer.close()
    assert sorted(map(int, client.values("many"))) == list(range(100))
    assert client.stable_offset("many", "many", 0) == 99


@COPIES
def test_a_topic_is_copied_exactly_once(client: TransactionalClient) -> None:
    client.create_topic("copied", 2)
    client.create_topic("copies", 2)
    producer = client.producer("copied", "copied")
    for number in range(20):
        producer.begin()
        producer.send("copied", str(number), number % 2)
        if number % 5 == 4:
            producer.abort()
        else:
            producer.commit()
    producer.close()
    # The second copier goes on where the first one has committed.
    for transactional_id in ("copier-1", "copier-2"):
        client.copy_exactly_once("copied", "copies", 8, group="copiers", transactional_id=transactional_id)
    committed = [number for number in range(20) if number % 5 != 4]
    assert sorted(map(int, client.values("copies"))) == committed
