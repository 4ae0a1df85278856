"""librdkafka's idempotent producer, when a leader refuses one batch and would accept the next (PRO-4).

The proxy answers as brokers do while the leader of a partition changes, or while too few replicas are in
sync. After OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka would begin a new producer epoch, and send again what the
log has; after an acknowledgement it would take all earlier batches as acknowledged.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.faulty_proxy import Fault, FaultyBroker, Kind, Request, faulty_broker
from tests.integration.peer import Peer, create_topic, read_all

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey

VALUES = [b"%d" % number for number in range(5)]
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOT_ENOUGH = ErrorCode.NOT_ENOUGH_REPLICAS
SETTINGS = {"enable.idempotence": True, "batch.num.messages": 1, "retry.backoff.ms": 20}
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    with faulty_broker(tmp_path_factory.mktemp("faulty") / "data") as broker:
        yield broker


def produced(
    faulty: FaultyBroker, topic: str, faults: dict[int, Fault]
) -> tuple[list[bytes], list[bytes | None]]:
    """The values that were acknowledged, and those in the log; each value is a batch of its own."""
    acknowledged: list[bytes] = []

    def on_delivery(error: Any, message: Any) -> None:
        assert error is None
        acknowledged.append(message.value())

    with Peer(faulty.broker.port) as peer:
        create_topic(peer, topic)
        faulty.proxy.plan = _plan(faulty, faults)
        producer = Producer({"bootstrap.servers": faulty.bootstrap, **SETTINGS})
        for value in VALUES:
            producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        assert producer.flush(DEADLINE_S) == 0
        return acknowledged, read_all(peer, topic)


def committed(faulty: FaultyBroker, topic: str, faults: dict[int, Fault]) -> list[bytes | None]:
    """The values in the log after a transaction that librdkafka has committed."""
    with Peer(faulty.broker.port) as peer:
        create_topic(peer, topic)
        faulty.proxy.plan = _plan(faulty, faults)
        producer = Producer(
            {"bootstrap.servers": faulty.bootstrap, **SETTINGS, "transactional.id": f"writer of {topic}"}
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for value in VALUES:
            producer.produce(topic, value, partition=0)
        producer.commit_transaction(DEADLINE_S)
        return [value for value in read_all(peer, topic) if value in VALUES]


def _plan(faulty: FaultyBroker, faults: dict[int, Fault]) -> Callable[[Request], Fault | None]:
    """These faults for the next produce requests, by their number."""
    first = len(faulty.proxy.asked_for(ApiKey.PRODUCE)) + 1
    return lambda request: faults.get(request.number - first) if request.api_key == ApiKey.PRODUCE else None


def refused(*numbers: int, code: ErrorCode) -> dict[int, Fault]:
    return {number: Fault(Kind.REFUSE, code=code) for number in numbers}


def test_what_the_old_leader_appended_is_not_sent_again_under_a_new_epoch(faulty: FaultyBroker) -> None:
    """The first batch was appended by a leader that was then deposed, and the next came a moment too early."""
    deposed = {0: Fault(Kind.LIE, code=NOT_LEADER)}
    assert produced(faulty, "deposed", deposed | refused(1, code=NOT_LEADER)) == (VALUES, VALUES)


def test_too_few_replicas_for_one_batch_double_no_other(faulty: FaultyBroker) -> None:
    after_append = {0: Fault(Kind.LIE, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)}
    assert produced(faulty, "shrunk", after_append | refused(1, 2, code=NOT_ENOUGH)) == (VALUES, VALUES)


@pytest.mark.parametrize("code", [NOT_LEADER, NOT_ENOUGH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_the_first_batch_of_a_producer_is_not_lost_when_only_the_second_is_accepted(
    faulty: FaultyBroker, code: ErrorCode
) -> None:
    assert produced(faulty, f"first-{code.name}", refused(0, code=code)) == (VALUES, VALUES)


def test_a_committed_transaction_has_its_first_batch_when_only_the_second_was_accepted(
    faulty: FaultyBroker,
) -> None:
    assert committed(faulty, "transaction", refused(0, code=NOT_LEADER)) == VALUES
